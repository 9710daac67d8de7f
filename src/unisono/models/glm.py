"""Generalised linear models: the model that is named is the model that is fitted.

Coefficients come in the user's units, with standard errors, intervals and tests that count the
noise in (`algorithms.fisher_scoring`). A category's first value is the reference.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from unisono.algorithms.column_scales import HEAVY
from unisono.algorithms.estimands import estimand, heavy_tails
from unisono.algorithms.fisher_scoring import Fitted, count_noise, fitted, terms_for
from unisono.algorithms.party_cases import Cases
from unisono.core.config import AddedLater
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.blocks import row_product
from unisono.data.columns import Feature, NamedColumn, NumericColumn
from unisono.data.encoding import Frame, Values
from unisono.data.scaling import Targets, UnitScaling
from unisono.data.schema import Schema
from unisono.data.sites import SiteColumn
from unisono.models.inference import Inference, determined
from unisono.models.model import (
    Choice,
    Fault,
    ModelConfig,
    ModelKind,
    Posed,
    Target,
    columns_in_words,
    share_of_range,
)
from unisono.models.prediction import Offset, Scores
from unisono.problems.glm import Columns, GeneralizedLinear
from unisono.releases.algorithm import AlgorithmKind

RATIOS = {"binomial": "odds ratio", "gaussian": "", "poisson": "rate ratio"}
_INVERSE = {"binomial": "logistic", "gaussian": "identity", "poisson": "exp"}
LINKS = {"binomial": "log-odds", "gaussian": "mean", "poisson": "log-rate"}
_FAMILY = (
    "How the target varies: binomial (two values), gaussian (a number), poisson (counts). Left "
    "out: binomial for two values, gaussian for a number."
)
# Standard deviations of scores, above which estimates fall short (8,000 records, epsilon 3): of
# log-odds 3.5 was right and 5 a sixth short; of log-rates .75 was right and 1.25 a sixth short.
_WIDEST_SCORES = {"binomial": 4.0, "poisson": 1.0}
# The square of a change of scores in a round after the first, beyond what noise explains, from
# which on rounds may fall short.
_LONGEST_STEP = 1.0
# What one-sided tests at 5 % are made of, and the least share that the first release tells.
_DEVIATIONS = 1.645
_LEAST_SHARE = 0.0101
_TWO_SIDED = 1.96
_ONE_OUTCOME = (
    "One of the two outcomes cannot be told from none under the noise: with one alone there is "
    "nothing to estimate, so no coefficient is determined."
)
_HEAVY_TAIL = (
    "The residuals have a long tail on one side, which was clipped. If it is longer in one group "
    "than in others, their difference is estimated too small and its interval is too narrow: model "
    "the logarithm of the target, or use more records or a larger epsilon. If the tail is there "
    "because the effect of a column is not a straight line, the coefficients describe most records "
    "and are not those of least squares: add the square or the logarithm of that column."
)
_LONG_COUNTS = (
    "The counts have a long tail, which was clipped. If their dispersion depends on a column, its "
    "coefficient can be too near to zero and its interval too narrow: use more records or a larger "
    "epsilon."
)
# Share of records of a group so small that the residuals of all say nothing of its own.
_SMALL_GROUP = 0.02


class GlmConfig(ModelConfig):
    """A family, and columns that are no features."""

    family: Literal["binomial", "gaussian", "poisson"] | None = Field(None, description=_FAMILY)
    exposure: str | None = Field(
        None, description="A column of times or sizes that counts are out of; its log is an offset."
    )
    offset: str | None = Field(
        None, description="A column that is added to every record's score, as it is."
    )
    weights: str | None = Field(
        None, description="A column of weights, not negative; they count before the clip."
    )
    confidence: float = Field(0.95, gt=0, lt=1, description="How often each interval holds.")
    covariance: Annotated[Literal["sandwich", "model"], AddedLater] = Field(
        "sandwich",
        description="Errors that are right whatever the variance (sandwich), or those of the "
        "family (model).",
    )
    errors: Annotated[Literal["any", "symmetric"], AddedLater] = Field(
        "any",
        description="Errors of the gaussian given the columns: any, or symmetric, for which "
        "bounded residuals give narrower intervals.",
    )
    site_effects: Annotated[bool, AddedLater] = Field(
        False,
        description="Whether every party has an intercept of its own, so that differences between "
        "parties are not taken for effects of columns; the largest is the reference.",
    )


def family_of(config: GlmConfig, schema: Schema) -> str:
    """The family, by what the target is where nobody says it."""
    return config.family or ("binomial" if schema.classes else "gaussian")


def _aside(config: GlmConfig) -> dict[str, str]:
    """Columns that are no features, by what they are."""
    named = {"exposure": config.exposure, "offset": config.offset, "weights": config.weights}
    return {what: column for what, column in named.items() if column is not None}


def faults(config: GlmConfig, schema: Schema) -> Iterator[Fault]:
    """What the schema lacks for this family."""
    family, target = family_of(config, schema), schema.columns.get(schema.target or "")
    if family == "binomial" and isinstance(target, NumericColumn):
        yield ("model", "family"), "binomial takes a target of two values: declare it as a category"
    if family != "binomial" and isinstance(target, NamedColumn):
        yield ("model", "family"), f"{family} takes a number as its target: use family = binomial"
    if isinstance(target, NamedColumn) and len(target.levels) > 2:
        yield (
            ("model", "family"),
            f"the target has {len(target.levels)} values, binomial takes two: see "
            "logistic-regression for several",
        )
    if family == "poisson" and isinstance(target, NumericColumn) and target.span[0] < 0:
        yield (
            ("model", "family"),
            "poisson takes counts: the target's bounds begin at zero or above",
        )
    if config.exposure and config.offset:
        yield ("model", "offset"), "exposure is an offset too: give one of them"
    if config.exposure and family != "poisson":
        yield ("model", "exposure"), f"exposure is for poisson, not for {family}: give an offset"
    for what, name in _aside(config).items():
        column = schema.columns.get(name)
        if column is None:
            yield ("model", what), f"{name!r} is no column: there are {', '.join(schema.columns)}"
        elif name == schema.target or not isinstance(column, NumericColumn):
            yield ("model", what), f"{name!r} must be a number, and not the target"
        elif column.span[0] < 0 and what != "offset":
            yield ("model", what), f"{name!r} has bounds below zero: {what} cannot be negative"
        elif column.span[0] == 0 and what == "exposure":
            words = f"{name!r} has bounds from zero, and who was not exposed has no rate"
            yield ("model", what), f"{words}: let them begin above, as at 1 day"
    if config.covariance == "model" and (schema.group or 1) > 1:
        words = "takes records of a person for independent"
        yield ("model", "covariance"), f'"model" {words}: leave it at "sandwich", which does not'
    if not set(schema.features) - set(_aside(config).values()):
        yield ("model",), "no column is left to explain the target: declare at least one more"


def column_layout(frame: Frame) -> tuple[Columns, ...]:
    """Which features belong together: values of one category, or of the bins of one number."""
    layout: list[Columns] = []
    for name, column in frame.schema.features.items():
        made = column.features(name)
        exclusive = isinstance(column, NamedColumn) or getattr(column, "bins", None) is not None
        if exclusive and all(one.indicator for one in made):
            shares = column.shares if isinstance(column, SiteColumn) else None
            layout.append(Columns(name, len(made), number=False, shares=shares))
        else:
            layout += [Columns(one.name, 1, number=not one.indicator) for one in made]
    products = frame.features[sum(own.width for own in layout) :]
    return (*layout, *(Columns(one.name, 1, number=not one.indicator) for one in products))


class Rarer(NamedTuple):
    """Of the rarer of two outcomes, its place, its share and about how many records have it by the
    noisy counts of the first release, and the deviation of noise in that."""

    place: int
    share: float
    records: float
    noise: float

    def fewer_than(self, least: float) -> bool:
        """Whether so few cannot be excluded, 5 % one-sided. A share was moved to one per cent where
        it came out below."""
        return self.share < _LEAST_SHARE or self.records < least + _DEVIATIONS * self.noise

    def told(self, cases: Sequence[Cases]) -> bool:
        """Whether there are any at all, by these counts or by the last round."""
        return not (self.fewer_than(1.0) and any(own.fewer_than(1.0).any() for own in cases))


def rarer(study: Study, value: Any) -> Rarer:
    """Of a run of a binomial. Two cells that add up to the records halve the noise's square."""
    method, mean = study.method, float(value.start.mean)
    noise = count_noise(method.config, method.problem, study.facts, method.privacy, study.trust)
    share = min(mean, 1 - mean)
    count = share * sum(study.facts.records)
    return Rarer(int(mean < 0.5), share, count, noise / math.sqrt(2))


class Regression(NamedTuple):
    """A problem over features (d,) of these names, whose public ranges are middle ± half, and the
    scaling of a target that is a number. Beyond ranges that were `released` no record counts: that
    is a weight of x alone, which leaves the model's coefficients as they are; a clip does not."""

    problem: GeneralizedLinear
    names: tuple[str, ...]
    middle: np.ndarray
    half: np.ndarray
    targets: Targets | None
    released: np.ndarray | None = None

    @property
    def unit(self) -> float:
        """The gaussian's y lies in [-1, 1]: scores and offsets are in that unit."""
        return _unit(self.problem.family, self.targets)

    def rows(
        self,
        features: np.ndarray,
        labels: np.ndarray,
        offset: np.ndarray | None = None,
        weight: np.ndarray | None = None,
    ) -> np.ndarray:
        """Records as the problem takes them, from features (n, d), labels (n,) that are 0 and 1 or
        numbers in [-1, 1], offsets (n,) of scores and weights (n,) as shares of the largest."""
        scaled = (features - self.middle) / self.half
        inside = np.clip(scaled, -1.0, 1.0)
        if self.released is not None:
            inside = np.where(self.released & (np.abs(scaled) > 1.0), np.nan, inside)
        y = labels
        if self.problem.family == "poisson":
            assert self.targets is not None
            y = self.targets.centre + self.targets.half * labels
        columns = [inside, y[:, None]]
        if self.problem.offset is not None:
            assert offset is not None
            columns.append(offset[:, None] / self.unit)
        if self.problem.weighted:
            assert weight is not None
            columns.append(weight[:, None])
        whole = np.concatenate(columns, axis=1)
        # Who misses anything says nothing at all.
        return np.where(np.isfinite(whole).all(axis=1, keepdims=True), whole, np.nan)

    def deviations(self, value: Any) -> np.ndarray:
        """How far each feature varies (d,), as it was released to standardise them."""
        return np.asarray(value.start.scale, float) * self.half

    def read(self, study: Study, value: Any, covariance: str = "sandwich") -> Inference:
        """What a run has found, in the user's units; the intercept comes first. Errors are those of
        a "sandwich", or those that the "model" has."""
        found = fitted(terms_for(study), value, by_model=covariance == "model")
        matrix = self.unit * in_units(found, self.middle, self.half)
        shift = np.zeros(len(matrix))
        if self.problem.family == "gaussian":
            assert self.targets is not None
            shift[0] = self.targets.centre
        names = ("intercept", *self.names)
        unknown, remarks = self._without_cases(found)
        remarks = (*remarks, *self._separated(found), *self._heavy_tails(found))
        if self.problem.family == "binomial" and not rarer(study, value).told(found.cases):
            unknown, remarks = [*names], (_ONE_OUTCOME,)
        return Inference(
            names,
            matrix @ found.theta + shift,
            matrix @ found.covariance @ matrix.T,
            matrix @ found.sampling @ matrix.T,
            self._known(found, matrix) & ~np.isin(names, unknown),
            RATIOS[self.problem.family],
            _doubts(self.problem, found, self.names),
            remarks,
            found.evidence,
            means=found.means,
        )

    def _known(self, found: Fitted, matrix: np.ndarray) -> np.ndarray:
        """Which coefficients records say more of than the prior (p,). An indicator's step is judged
        where it is linear, and it is unknown if its interval has no end at all."""
        linear = found.covariance if found.linear is None else found.linear
        known = determined(linear, found.prior, matrix, found.weak)
        if found.means is None:
            return known
        return known & ~np.isinf(found.means.ends(_TWO_SIDED)).all(axis=1)

    def _separated(self, found: Fitted) -> Iterator[str]:
        """A sentence for indicators whose intervals have one end."""
        if found.means is None:
            return
        ends = np.isinf(found.means.ends(_TWO_SIDED))
        for side, words in enumerate(("lower limit", "upper limit")):
            open_ends = ends[:, side] & ~ends[:, 1 - side]
            names = [n for n, no in zip(("intercept", *self.names), open_ends, strict=True) if no]
            if names:
                yield (
                    f"{', '.join(names)}: no {words}. The records do not exclude that one of the "
                    "compared groups has no outcomes, or only outcomes (separation)."
                )

    def _heavy_tails(self, found: Fitted) -> Iterator[str]:
        """A sentence for columns with heavy tails."""
        names = [name for name, own in zip(self.names, found.far, strict=False) if own > HEAVY]
        if names:
            yield heavy_tails(names)

    def _without_cases(self, found: Fitted) -> tuple[list[str], tuple[str, ...]]:
        """The coefficients that parties without cases leave open, and what is said of them."""
        if not any(found.without_cases):
            return [], ()
        ends = np.cumsum([0, *(own.width for own in self.problem.columns)])
        place = next(n for n, own in enumerate(self.problem.columns) if own.shares is not None)
        names = self.names[ends[place] : ends[place + 1]]
        if found.without_cases[0]:
            unknown, who = ["intercept", *names], "the party of reference"
        else:
            unknown = [n for n, no in zip(names, found.without_cases[1:], strict=True) if no]
            who = ", ".join(unknown)
        counts = self.problem.family == "poisson"
        what = "there are any cases" if counts else "both outcomes occur"
        return unknown, (
            f"The noise hides whether {what} at {who}: the intercept there has no finite interval "
            "and is not determined. The other coefficients are not affected.",
        )


def glm_prediction(
    family: str,
    found: Inference,
    limits: tuple[np.ndarray, np.ndarray],
    inputs: tuple[str, ...],
    classes: tuple[Any, ...] = (),
    offset: Offset | None = None,
    usual: Mapping[str, float] | None = None,
) -> Scores:
    """Scores of features that are clipped to these lowest and highest values (d,), with the
    covariance of the coefficients; what is not determined counts as the weak prior has it. `usual`
    features are not read of new records: they have these values, as parties have public shares."""
    fixed = {} if usual is None else usual
    kept = [name not in fixed for name in found.names]
    # What is fixed becomes part of the intercept.
    joined = np.eye(len(kept))[kept]
    joined[0] += [fixed.get(name, 0.0) for name in found.names]
    low, high = limits
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, 1e-12)
    # With x = middle + half u, coefficients (intercept, slopes) of x become those of (u, 1).
    width = len(middle)
    matrix = np.zeros((width + 1, width + 1))
    matrix[:width, 1:] = np.diag(half)
    matrix[width] = np.concatenate([[1.0], middle])
    return Scores.linear(
        inputs,
        tuple(name for name in found.names[1:] if name not in fixed),
        UnitScaling(middle, half, None),
        (matrix @ joined @ found.estimate)[None, :],
        _INVERSE[family],
        labels=classes,
        covariance=matrix @ joined @ found.covariance @ joined.T @ matrix.T,
        silence="",
        offset=offset,
    )


def _doubts(problem: GeneralizedLinear, found: Fitted, names: Sequence[str]) -> tuple[str, ...]:
    """Few rounds of Newton's method from the intercept alone do not reach where scores spread very
    widely, as they do without end where classes are separated. Columns count as if they were
    independent, and what noise adds to the squares is taken off. A heavy tail of one group is
    clipped more than that of all says. Steps of indicators are exact at any length, those of
    numbers and of the level are not."""
    if problem.residuals == "wide":
        share = np.minimum(found.centre, 1 - found.centre)
        few = ~problem.numeric & (share < _SMALL_GROUP)
        small = [name for name, own in zip(names, few, strict=True) if own]
        rare = (
            f"Fewer than 2 % of the records differ in {', '.join(small)}. Residuals are clipped at "
            "a level for all records. If they are longer in so small a group, its coefficient is "
            "too near to zero and its interval too narrow."
        )
        return (*([_HEAVY_TAIL] if found.heavy else []), *([rare] if small else []))
    if found.heavy and problem.family == "poisson":
        return (_LONG_COUNTS,)
    if problem.family != "gaussian" and found.moved is not None and len(found.moved):
        numbers = np.concatenate([[True], problem.numeric])
        noise = 4 * float(np.trace(found.covariance[numbers][:, numbers]))
        moved = float(np.linalg.norm(found.moved[:, numbers], axis=1).max())
        if moved**2 > _LONGEST_STEP + noise:
            return (
                f"A round after the first changed scores by {moved:.1f} in "
                f"{LINKS[problem.family]}: few rounds fall short of such large effects. Estimates "
                "may be too near to zero and intervals too narrow; narrower bounds or a larger "
                "epsilon help.",
            )
    widest = _WIDEST_SCORES.get(problem.family, np.inf)
    square = float(np.sum(found.theta[1:] ** 2) - np.trace(found.covariance[1:, 1:]))
    if square <= widest**2:
        return ()
    remedy = "" if problem.family != "binomial" else "; is a column nearly the outcome itself?"
    return (
        f"Scores spread by {square**0.5:.1f} in {LINKS[problem.family]}, more than {widest:g}: few "
        "rounds fall short of such large effects, so that estimates are too near to zero and "
        f"intervals too narrow{remedy or '.'}",
    )


def _unit(family: str, targets: Targets | None) -> float:
    return targets.half if family == "gaussian" and targets is not None else 1.0


def regression(
    family: str,
    columns: tuple[Columns, ...],
    features: Sequence[Feature],
    targets: Targets | None,
    offset: tuple[float, float] | None = None,
    *,
    weighted: bool = False,
    selects: bool = False,
    symmetric: bool = True,
) -> Regression:
    """The regression on features with public ranges, of a target with public `targets`; none where
    it has two values. `offset` are the ends of what is added to scores, in the target's units. One
    that `selects` leaves out records beyond ranges that were released, where others clip them.
    `symmetric` errors of a gaussian have bounded residuals; else the slopes are those of the mean
    whatever the errors are, and a target with bounds 0 and 1 is not clipped at all."""
    low, high = (np.array(ends) for ends in zip(*(f.bounds for f in features), strict=True))
    numeric = ~np.array([feature.indicator for feature in features])
    middle = np.where(numeric, (low + high) / 2, 0.0)
    half = np.where(numeric, np.maximum((high - low) / 2, 1e-12), 1.0)
    top = 1.0 if targets is None else targets.centre + targets.half
    ends = {"binomial": (0.0, 1.0), "gaussian": (-1.0, 1.0), "poisson": (0.0, top)}[family]
    if offset is not None:
        unit = _unit(family, targets)
        offset = (offset[0] / unit, offset[1] / unit)
    residuals = "bounded"
    if family == "gaussian" and not symmetric:
        assert targets is not None
        zero_one = (targets.centre, targets.half) == (0.5, 0.5)
        residuals = "whole" if zero_one else "wide"
    problem = GeneralizedLinear(family, columns, ends, offset, weighted, residuals)
    released = np.array([f.centre is not None for f in features]) if selects else None
    return Regression(problem, tuple(f.name for f in features), middle, half, targets, released)


def pose(config: GlmConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy) -> Posed:
    """Numbers are brought into [-1, 1] by their public bounds, and stay straight lines of what they
    were: nothing is divided by a record's own length."""
    family, aside = family_of(config, schema), _aside(config)
    kept = {name: own for name, own in schema.columns.items() if name not in aside.values()}
    frame = Frame(schema.model_copy(update={"columns": kept}))
    made = regression(
        family,
        column_layout(frame),
        frame.features,
        None if frame.classes else frame.targets,
        _offset_ends(config, schema),
        weighted="weights" in aside,
        selects=True,
        symmetric=config.errors == "symmetric",
    )
    problem = made.problem

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        offset = weight = None
        if problem.offset is not None:
            offset = _offset(config, values)
        if problem.weighted:
            assert config.weights is not None
            column = schema.columns[config.weights]
            assert isinstance(column, NumericColumn)
            weight = values[config.weights] / max(column.span[1], 1e-12)
        labels = frame.labels(values, signed=False)
        return (made.rows(frame.rows(values), labels, offset, weight),)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = made.read(study, result.value, config.covariance)
        shown: dict[str, Any] = {
            "family": family,
            "link": LINKS[family],
            "target": frame.target,
            "confidence": config.confidence,
            "coefficients": found.to_json(config.confidence),
            "ratio": RATIOS[family],
            "errors": config.covariance,
            "tests": _tests(found, made.problem),
            "names": list(found.names),
            "features": {
                one.name: described(one, deviation)
                for one, deviation in zip(
                    frame.features, made.deviations(result.value), strict=True
                )
            },
            "covariance": found.covariance.tolist(),
            "rounds": int(result.value.round),
        }
        if frame.classes:
            shown["negative"], shown["positive"] = frame.classes
        return shown | {"note": " ".join(notes(found, family, config.errors))}

    def score(study: Study, value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        return scored_rows(problem, value, arrays[0])

    def prediction(study: Study, result: Result) -> Scores:
        name = config.exposure or config.offset
        offset = None if name is None else Offset(name, config.exposure is not None)
        found = made.read(study, result.value)
        features = frame.schema.features
        usual = {
            feature.name: share
            for name, column in features.items()
            if isinstance(column, SiteColumn)
            for feature, share in zip(column.features(name), column.shares, strict=True)
        }
        own = np.array([name not in usual for name in made.names])
        limits = (made.middle - made.half)[own], (made.middle + made.half)[own]
        inputs = tuple(n for n, one in features.items() if not isinstance(one, SiteColumn))
        return glm_prediction(family, found, limits, inputs, frame.classes, offset, usual)

    return Posed(problem, problem.width, encode, present, score=score, prediction=prediction)


def described(feature: Feature, deviation: float) -> dict[str, Any]:
    """What a coefficient is of: a step of 1 within public bounds, or a value against another. How
    far a number varies is what was released of it, with noise."""
    if not feature.indicator:
        return {"bounds": [feature.low, feature.high], "deviation": float(deviation)}
    return {"reference": feature.reference} if feature.reference else {}


def in_units(found: Fitted, middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    """The matrix that turns standardised coefficients into those of features x, with
    z = ((x - middle) / half - centre) / scale."""
    slope = 1 / (found.scale * half)
    matrix = np.diag(np.concatenate([[1.0], slope]))
    matrix[0, 1:] = -(middle + half * found.centre) * slope
    return matrix


def _offset_ends(config: GlmConfig, schema: Schema) -> tuple[float, float] | None:
    """The public ends of the offset in the target's units."""
    name = config.exposure or config.offset
    if name is None:
        return None
    column = schema.columns[name]
    assert isinstance(column, NumericColumn)
    return column.span if config.exposure is None else exposure_ends(*column.span)


def exposure_ends(low: float, high: float) -> tuple[float, float]:
    """The ends of logarithms of exposures, which count down to a thousandth of the largest."""
    return float(np.log(max(low, high / 1000))), float(np.log(high))


def _offset(config: GlmConfig, values: Values) -> np.ndarray:
    if config.exposure is not None:
        own = values[config.exposure]
        return np.log(np.where(own > 0, own, np.nan))
    assert config.offset is not None
    return values[config.offset]


def scored_rows(problem: GeneralizedLinear, value: Any, rows: np.ndarray) -> np.ndarray:
    """How good the last point of a run is, record by record."""
    start, point = value.start, value.point
    features, y, offset, _ = (np.asarray(part, float) for part in problem.parts(rows))
    standard = (features - np.asarray(start.centre)) / np.asarray(start.scale)
    theta = np.asarray(point.theta, float)
    scores = theta[0] + row_product(standard, theta[1:]) + offset
    if problem.family == "binomial":
        return ((scores > 0) == (y > 0.5)).astype(float)
    if problem.family == "poisson":
        top = problem.target[1] / 2
        return share_of_range(np.exp(np.minimum(scores, 30.0)) / top - 1, y / top - 1)
    return share_of_range(scores, y)


UNDETERMINED = (
    "Either noise drowned what records say, and more of them, a larger epsilon, tighter bounds or "
    "fewer columns help; or records say nothing, as of a column that is constant or the same as "
    "others, or of outcomes that a column separates, and then none of that does"
)


def notes(found: Inference, family: str, errors: str = "any") -> Sequence[str]:
    """What is to be known about the table, in sentences."""
    kind = "symmetric" if (family, errors) == ("gaussian", "symmetric") else family
    said = [f"{estimand(kind)} Intervals and tests count sampling and the noise of privacy."]
    if found.drowned:
        said.append(f"Not determined: {', '.join(found.drowned)}. {UNDETERMINED}.")
    return [*said, *found.remarks, *found.doubts]


def _tests(found: Inference, problem: GeneralizedLinear) -> dict[str, Any]:
    """Of every column that has several coefficients, whether the model loses by leaving it out."""
    ends = np.cumsum([1, *(own.width for own in problem.columns)])
    tested: dict[str, Any] = {}
    for own, first, last in zip(problem.columns, ends[:-1], ends[1:], strict=True):
        names = found.names[first:last]
        if len(names) > 1 and not set(names) & set(found.drowned):
            wald, ratio = found.wald(names), found.likelihood_ratio(names)
            tested[own.name] = {"degrees": wald.degrees} | {
                what: {"statistic": one.statistic, "p_value": one.p_value}
                for what, one in (("wald", wald), ("likelihood_ratio", ratio))
            }
    return tested


def choose(config: GlmConfig, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    return Choice("fisher-scoring", "few noisy rounds whose intervals count the noise in")


def _learns(config: GlmConfig, schema: Schema) -> str:
    kept = {n: c for n, c in schema.columns.items() if n not in _aside(config).values()}
    columns = columns_in_words(schema.model_copy(update={"columns": kept}))
    family = family_of(config, schema)
    columns += " and the party" if config.site_effects else ""
    return f"a {family} regression of {schema.target} on {columns}, with intervals and tests"


def draft(schema: Schema) -> str:
    """What the open settings come to for these columns, as comments."""
    lines = []
    if schema.target is not None:
        if schema.classes:
            lines.append(f"family is binomial here: odds of {schema.target} = {schema.classes[-1]}")
        else:
            lines.append(
                'family is gaussian where the target is a number; counts want family = "poisson"'
            )
    references = [
        one.reference for name, own in schema.features.items() for one in own.features(name)[:1]
    ]
    if any(references):
        named = ", ".join(one for one in references if one)
        lines.append(f"values are compared with the first of their list: {named}")
    return "".join(f"# {line}\n" for line in lines)


GLM = ModelKind(
    "glm",
    "coefficients with valid intervals and tests: odds ratios, differences, rate ratios",
    GlmConfig,
    Target.EITHER,
    GeneralizedLinear,
    pose,
    choose,
    learns=_learns,
    faults=faults,
    draft=draft,
    prediction=Scores,
    wide_ranges=True,
)

__all__ = [
    "GLM",
    "LINKS",
    "UNDETERMINED",
    "GlmConfig",
    "Regression",
    "column_layout",
    "described",
    "exposure_ends",
    "glm_prediction",
    "notes",
    "rarer",
    "regression",
    "scored_rows",
]
