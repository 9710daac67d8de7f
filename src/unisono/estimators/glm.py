"""Private generalised linear models: coefficients with intervals and tests that count the noise in.

Two releases are paid for together: noisy counts of every column, from which middles and spreads
follow (`algorithms.column_scales`), and one to three rounds of Fisher scoring
(`algorithms.fisher_scoring`). What study files call `model = "glm"` is the same regression.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup
from scipy.special import expit
from sklearn.metrics import accuracy_score, d2_tweedie_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from unisono.core.algorithm import Facts
from unisono.core.defaults import BOUNDS_SHARE, RELATION, warn_of_clipping
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Trust, Unit
from unisono.core.words import did_you_mean
from unisono.data.blocks import row_product
from unisono.data.columns import Feature, finite_range
from unisono.data.scaling import UnitScaling
from unisono.data.sites import SITE, SiteColumn, site_column
from unisono.errors import InvalidInput, warn
from unisono.estimators.classifiers import public_classes
from unisono.estimators.configuration import FitPlan, in_stages
from unisono.estimators.documentation import PARTIES, documented
from unisono.estimators.foundation import PRIVATE, PrivateEstimator, unknown_bounds
from unisono.estimators.frames import validate_data
from unisono.estimators.members import membership, public_sizes
from unisono.estimators.records import FitRecords, of_persons
from unisono.estimators.statements import DrownedByNoise, FewEvents, NotConverged, UnboundedFeatures
from unisono.estimators.weights import as_shares, one_each
from unisono.models.inference import Inference, LikelihoodRatioTest, WaldTest
from unisono.models.summary import RegressionSummary

if TYPE_CHECKING:  # JAX is imported when a model is really fitted
    from unisono.algorithms.labels import Labels
    from unisono.algorithms.ranges import Range
    from unisono.models.glm import Regression
    from unisono.models.prediction import Prediction
    from unisono.problems.glm import GeneralizedLinear
    from unisono.scaling import PrivateRanges

# Events of the rarer kind for each coefficient, below which estimates are known to go wrong, with
# or without noise (Peduzzi et al. 1996).
_EVENTS = 10
# A released range of the target is wide enough where so many deviations lie within it.
_WELL_INSIDE = 2.5
_SIMULATED = "A SIMULATION: the noise is predictable, so there is no privacy."
_FAMILIES = ("binomial", "gaussian", "poisson")
_ERRORS = ("any", "symmetric")
_COVARIANCES = ("sandwich", "model")


class _Beside(NamedTuple):
    """What stands beside features and target (n,): offsets in the target's units, weights as shares
    of the largest, and the party of each record with what is public of parties."""

    offset: np.ndarray | None
    weight: np.ndarray | None
    site: np.ndarray | None = None
    sites: SiteColumn | None = None


def _binomial(estimator: "PrivateGLM") -> bool:
    return bool(estimator.family == "binomial")


class PrivateGLM(PrivateEstimator):
    __doc__ = documented(
        "Differentially private generalised linear model: odds ratios, differences or rate ratios\n"
        "    with standard errors, intervals and tests that are valid under the noise.\n\n"
        "    The model that is named is the model that is fitted: E[y | x] = μ(η) with\n"
        "    η = intercept_ + coef_·x + offset, μ logistic, identity or exponential.\n"
        "    Coefficients are in the units of X; errors are those of a sandwich and count\n"
        "    sampling and the noise of privacy. A coefficient that noise drowned is *not\n"
        "    determined*: NaN, never a number that is only the prior's.",
        (
            'family : "binomial" (two classes), "gaussian" (a number) or "poisson" (counts, also '
            "such as spread wider than the Poisson law).",
            "bounds : public bounds of the features: (lowest, highest), each a number or one per "
            "feature, or of all columns of a frame by their names; or one "
            "number that bounds the norm of a row. What lies outside is clipped, "
            'with a `ClippedValues` warning. "private" or None: ranges are released first, for a '
            "part of the same epsilon and delta, and each end is moved outward by the width; "
            "records beyond teach nothing, as a clip would bias coefficients. None warns of it "
            "(`UnboundedFeatures`), and refuses where there are too few records.",
            "classes",
            'target_bounds : public (lowest, highest) target; "private" or None, as with `bounds`, '
            "for the gaussian only: the largest count of a poisson must be public.",
            "indicators : names or places of features that are 0 or 1; None: those whose public "
            "bounds are (0, 1). Write [] where such columns hold fractions.",
            "offset_bounds, exposure_bounds : public (lowest, highest) offset or exposure, where "
            "`fit` is given one.",
            "largest_weight : public bound of `sample_weight`, where `fit` is given it.",
            "rounds : noisy rounds, 1 to 3; None: a rule of records, coefficients and epsilon.",
            "prior_sd : spread of the weak prior, for a change of a number by its deviation and "
            "for an indicator.",
            "site_effects : whether every party has an intercept of its own, so that differences "
            "between parties are not taken for effects of features. The largest party is the "
            "reference, by public sizes.",
            'covariance : "sandwich": errors that are right whatever the variance is, and, with '
            '`persons`, however records of one person depend on each other; or "model": those of '
            "the family.",
            'errors : of the gaussian, given the features: "any", which estimates the mean by '
            'least squares, or "symmetric", whose bounded residuals give narrower intervals that '
            "are about the mean only if it is true.",
            "relation",
            "trust",
            *(name for name in PARTIES if name != "columns"),
            "engine",
        ),
        (
            "coef_, intercept_ : estimates (d,) and a number; NaN where not determined.",
            "params_, bse_, zvalues_, pvalues_, determined_ : of the intercept, then of every "
            "feature (d + 1,), then of parties, where they have effects: estimates, standard "
            "errors, z, two-sided p, and whether data say more of it than the prior; numbers are "
            "NaN where they do not.",
            "cov_params_ : the covariance (d + 1, d + 1).",
            "names_ : what they are called.",
            "privacy_share_ : which part of an interval's width the noise of privacy is (d + 1,). "
            "The rest is no interval without privacy: bounded weights and residuals widen it.",
            "inference_ : all of it as an `Inference`, with what is not determined.",
            "site_effects_ : of every party by its name, the difference of its intercept from the "
            "reference's, which has 0; NaN where not determined; empty without `site_effects`.",
            "rounds_ : noisy rounds of Fisher scoring.",
            "classes_ : the labels of a binomial, sorted; the second is the one whose odds are "
            "modelled.",
        ),
    )
    _pure = False
    _model = "glm"
    _beside: _Beside | None = None

    def __init__(
        self,
        family: str = "binomial",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        classes: Any = None,
        target_bounds: Any = None,
        indicators: Any = None,
        offset_bounds: Any = None,
        exposure_bounds: Any = None,
        largest_weight: float | None = None,
        rounds: int | None = None,
        prior_sd: float = 5.0,
        site_effects: bool = False,
        covariance: str = "sandwich",
        errors: str = "any",
        relation: str = RELATION.value,
        trust: str | None = None,
        records: Any = None,
        ledger: Any = None,
        minimum_parties: int | None = None,
        colluders: int | None = None,
        random_state: Any = None,
        bounds_share: float = BOUNDS_SHARE,
        records_per_person: int | None = None,
        person_at_parties: int = 1,
        engine: str = "in-process",
    ) -> None:
        self.family, self.epsilon, self.delta, self.bounds = family, epsilon, delta, bounds
        self.classes, self.target_bounds, self.indicators = classes, target_bounds, indicators
        self.offset_bounds, self.exposure_bounds = offset_bounds, exposure_bounds
        self.largest_weight, self.rounds, self.prior_sd = largest_weight, rounds, prior_sd
        self.site_effects, self.covariance, self.errors = site_effects, covariance, errors
        self.records_per_person, self.person_at_parties = records_per_person, person_at_parties
        self.relation, self.trust, self.records, self.ledger = relation, trust, records, ledger
        self.minimum_parties, self.colluders = minimum_parties, colluders
        self.random_state, self.bounds_share, self.engine = random_state, bounds_share, engine

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.family == "binomial":
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(poor_score=True, multi_class=False)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
            tags.target_tags.positive_only = self.family == "poisson"
        return tags

    # ------------------------------------------------------------- fitting

    def fit(
        self,
        X: Any,
        y: Any,
        parties: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        persons: Any = None,
    ) -> Any:
        """Learn from rows X (n, d), targets y (n,) and the party of each row (n,).

        `offset` (n,) is added to scores, `exposure` (n,) is what counts are out of: its logarithm
        is an offset. Weights (n,) count before records are bounded: they weigh what a record says,
        and errors are robust to them. `persons` (n,) say whose each record is: then all records of
        a person are hidden together, and errors are robust to dependence among them.
        """
        self._require_family()
        self._require_covariance(persons)
        given, binomial = y, self.family == "binomial"
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=not binomial)
        names = self._names(X.shape[1])
        labels = self._binary(y, given) if binomial else self._numbers(y)
        beside = self._checked(len(X), offset, exposure, sample_weight)
        records = FitRecords(X, labels, membership(parties, len(X)))
        if persons is not None:
            records = of_persons(self, records, X, persons)
        beside = self._with_sites(beside, records, names)
        try:  # records stay in no attribute
            self._beside = beside
            self._declared = None
            result, plan = self._run(records, self._plan)
            regression = self._regression(X.shape[1], names)
            found = regression.read(plan.study, result.value, self.covariance)
        finally:
            self._beside = None
        self._publish(found, plan.study, result, beside.sites)
        return self

    def _with_sites(self, beside: _Beside, records: FitRecords, names: tuple[str, ...]) -> _Beside:
        """With the party of each record, where parties have effects."""
        if not self.site_effects:
            return beside
        if len(records.names) == 1:
            raise InvalidInput(
                "site_effects with one party: it has no other to be compared with; give parties "
                "the party of each row, or leave it out; nothing was spent"
            )
        sizes = public_sizes(self.records, records, self._relation())
        sites = site_column(records.names, sizes)
        if both := sorted({*names} & {one.name for one in sites.features(SITE)}):
            raise InvalidInput(
                f"{both[0]!r} is a column of X, and would be the name of a party's effect: give "
                "it another one; nothing was spent"
            )
        place = np.zeros(len(records.X))
        for name, rows in zip(records.names, records.members.rows, strict=True):
            place[rows] = sites.levels.index(name)
        return beside._replace(site=place, sites=sites)

    def _plan(self, facts: Facts, trust: Trust, promise: Privacy) -> FitPlan:
        """Middles and spreads, then the rounds: priced together, and run one after the other."""
        from unisono.algorithms.fisher_scoring import FISHER_SCORING

        problem, said = self._problem(facts.features - 1), {"prior_sd": self.prior_sd}
        if self.rounds is not None:
            said["rounds"] = self.rounds
        method = FISHER_SCORING.method(problem, promise, **said)
        return in_stages(method, replace(facts, features=problem.width), trust, self.engine)

    def _planned(
        self, facts: Facts, trust: Trust, promise: Privacy, planned: Any
    ) -> tuple["PrivateRanges | None", FitPlan]:
        first, plan = super()._planned(facts, trust, promise, planned)
        if first is None and (self._features_unknown or self._target_unknown):
            unknown = ["bounds"] * self._features_unknown + ["target_bounds"] * self._target_unknown
            raise InvalidInput(
                f"{' and '.join(unknown)} = None with {sum(facts.records)} records: too few to "
                "find ranges privately, and coefficients need some; pass public (lowest, highest) "
                f"values, known without looking at the data, or {PRIVATE!r} to try; nothing was "
                "spent"
            )
        return first, plan

    def _encoded(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Rows of the problem: features in [-1, 1], the target, and what stands beside it."""
        assert self._beside is not None
        own = labels if self.family == "binomial" else self._targets.scaled(labels)
        made, sites = self._regression(X.shape[1]), self._beside.sites
        if sites is not None:
            assert self._beside.site is not None
            X = np.concatenate([X, sites.encoded(self._beside.site)], axis=1)
        return (made.rows(X, own, self._beside.offset, self._beside.weight),)

    def _learn_ranges(self, found: "list[Range | Labels]") -> None:
        """Ranges as they were released would clip one record in fifty, and move a line by it."""
        from unisono.algorithms.ranges import widened

        super()._learn_ranges(list(widened(found)))

    @property
    def _target_unknown(self) -> bool:
        return self.family == "gaussian" and unknown_bounds(self.target_bounds, "target_bounds")

    # ------------------------------------------------------------- what is regressed on what

    def _problem(self, features: int) -> "GeneralizedLinear":
        return self._regression(features).problem

    def _regression(self, features: int, names: tuple[str, ...] = ()) -> "Regression":
        """By public bounds, or by ranges that were released."""
        from unisono.models.glm import regression
        from unisono.problems.glm import Columns

        low, high = self._limits(features)
        zero_one = self._indicators(features)
        names = names or tuple(f"x{place}" for place in range(features))
        centres = [None] * features if self._ranges is None else self._ranges[1].tolist()
        own = [
            Feature(name, float(a), float(b), centre, bool(flag))
            for name, a, b, centre, flag in zip(names, low, high, centres, zero_one, strict=True)
        ]
        columns = tuple(Columns(one.name, 1, number=not one.indicator) for one in own)
        sites = None if self._beside is None else self._beside.sites
        if sites is not None:
            own += sites.features(SITE)
            width = len(sites.levels) - 1
            columns = (*columns, Columns(SITE, width, number=False, shares=sites.shares))
        targets = None if self.family == "binomial" else self._targets
        weighted = self._beside is not None and self._beside.weight is not None
        return regression(
            self.family,
            columns,
            own,
            targets,
            self._offset_ends(),
            weighted=weighted,
            selects=True,
            symmetric=self.errors == "symmetric",
        )

    def _limits(self, features: int) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest value of every feature (d,)."""
        if self._ranges is not None:
            return self._ranges[0], self._ranges[2]
        if self._features_unknown:  # not released yet, and nothing that is priced depends on them
            return -np.ones(features), np.ones(features)
        array = np.asarray(self._bounds, float)
        array = np.array([-array, array]) if array.ndim == 0 else array
        low, high = np.broadcast_to(array if array.ndim == 2 else array[:, None], (2, features))
        return low, high

    def _indicators(self, features: int) -> np.ndarray:
        """Which features are 0 or 1 (d,)."""
        if self.indicators is None:
            if self._features_unknown:
                return np.zeros(features, bool)
            low, high = self._limits(features)
            return (low == 0) & (high == 1)
        names = self._names(features)
        flags = np.zeros(features, bool)
        for own in self.indicators:
            place = names.index(own) if own in names else own
            whole = isinstance(place, (int, np.integer)) and not isinstance(place, bool)
            if not whole or not 0 <= place < features:
                raise InvalidInput(
                    f"indicators names {own!r}, which is no feature: there are "
                    f"{', '.join(names)}; nothing was spent{did_you_mean(own, names)}"
                )
            flags[place] = True
        return flags

    def _offset_ends(self) -> tuple[float, float] | None:
        from unisono.models.glm import exposure_ends

        if self._beside is None or self._beside.offset is None:
            return None
        if self.exposure_bounds is not None:
            return exposure_ends(*map(float, self.exposure_bounds))
        low, high = map(float, self.offset_bounds)
        return low, high

    # ------------------------------------------------------------- what is refused

    def _require_family(self) -> None:
        if self.family not in _FAMILIES:
            raise InvalidInput(
                f"family = {self.family!r}: choose one of {', '.join(_FAMILIES)}; counts that "
                "spread wider than the Poisson law are poisson too, with robust errors; nothing "
                f"was spent{did_you_mean(self.family, _FAMILIES)}"
            )

    def _require_covariance(self, persons: Any) -> None:
        if self.errors not in _ERRORS:
            raise InvalidInput(
                f"errors = {self.errors!r}: choose one of {', '.join(_ERRORS)}"
                f"{did_you_mean(self.errors, _ERRORS)}. No privacy budget was spent."
            )
        if self.covariance not in _COVARIANCES:
            raise InvalidInput(
                f"covariance = {self.covariance!r}: choose one of {', '.join(_COVARIANCES)}; "
                f"nothing was spent{did_you_mean(self.covariance, _COVARIANCES)}"
            )
        if self.covariance == "model" and persons is not None:
            raise InvalidInput(
                "covariance = 'model' with persons: it takes records of a person for independent; "
                "leave it at 'sandwich', which does not; nothing was spent"
            )

    def _names(self, features: int) -> tuple[str, ...]:
        given = getattr(self, "feature_names_in_", [f"x{place}" for place in range(features)])
        names = tuple(map(str, given))
        if len({"intercept", *names}) <= len(names):
            raise InvalidInput(
                "two coefficients would have the same name: name every column of X differently, "
                "and none 'intercept', which is there anyway; nothing was spent"
            )
        return names

    def _binary(self, y: np.ndarray, given: Any) -> np.ndarray:
        """Places of labels among the two classes (n,)."""
        check_classification_targets(y)
        if isinstance(self.classes, str):
            raise InvalidInput(
                f"classes = {self.classes!r}: which of two is modelled must be known beforehand; "
                "pass classes=[...], the public list of both labels; nothing was spent"
            )
        self.classes_, index = public_classes(self, y, self.classes, binary=True, given=given)
        return index.astype(float)

    def _numbers(self, y: np.ndarray) -> np.ndarray:
        """Targets (n,), as they are."""
        if self.family == "poisson":
            if unknown_bounds(self.target_bounds, "target_bounds"):
                raise InvalidInput(
                    f"target_bounds = {self.target_bounds!r} with poisson: the largest count is "
                    "part of what parties agree on; pass public bounds, as target_bounds=(0, 30); "
                    "nothing was spent"
                )
            low = _ends("target_bounds", self.target_bounds)[0]
            if low < 0 or (y < 0).any():
                what = f"target_bounds begin at {low:g}" if low < 0 else "y holds negative numbers"
                raise InvalidInput(
                    f"{what}: poisson takes counts, zero or above; for other numbers there is "
                    "family='gaussian'; nothing was spent"
                )
        if not unknown_bounds(self.target_bounds, "target_bounds"):
            warn_of_clipping(y, *_ends("target_bounds", self.target_bounds), "targets")
        return y

    def _checked(self, records: int, offset: Any, exposure: Any, weights: Any) -> _Beside:
        """What stands beside, clipped to its public bounds."""
        if offset is not None and exposure is not None:
            raise InvalidInput("exposure is an offset too: give one of them; nothing was spent")
        if exposure is not None and self.family != "poisson":
            raise InvalidInput(
                f"exposure with {self.family}: it is what counts are out of; give an offset, or "
                "family='poisson'; nothing was spent"
            )
        added_up = weight = None
        if offset is not None:
            ends = _ends("offset_bounds", self.offset_bounds)
            if self._target_unknown:
                raise InvalidInput(
                    "offset without public target_bounds: how far it reaches is measured in them; "
                    "pass target_bounds=(lowest, highest); nothing was spent"
                )
            added_up = _within(one_each("offset", offset, records), *ends, "offsets")
        if exposure is not None:
            low, high = _ends("exposure_bounds", self.exposure_bounds)
            own = one_each("exposure", exposure, records)
            if low < 0:
                raise InvalidInput(
                    f"exposure_bounds begin at {low:g}: an exposure is above zero; give bounds "
                    "that begin at zero or above; nothing was spent"
                )
            if (own <= 0).any():
                raise InvalidInput(
                    "exposure holds zeros or negative numbers: who was not exposed has no rate; "
                    "leave such records out; nothing was spent"
                )
            added_up = np.log(_within(own, max(low, high / 1000), high, "exposures"))
        if weights is not None:
            weight = as_shares(weights, self.largest_weight, records)
        return _Beside(added_up, weight)

    # ------------------------------------------------------------- what was found

    def _publish(
        self, found: Inference, study: Study, result: Result, sites: SiteColumn | None
    ) -> None:
        from unisono.models.glm import rarer

        known = found.determined
        self.inference_, self.names_, self.determined_ = found, found.names, known
        self.params_ = np.where(known, found.estimate, np.nan)
        features = 1 + self.n_features_in_
        self.coef_, self.intercept_ = self.params_[1:features], float(self.params_[0])
        levels = () if sites is None else sites.levels
        own = [0.0, *self.params_[features:].tolist()]
        self.site_effects_ = dict(zip(levels, own, strict=False))
        # What a record of nobody in particular has: the mean over all that were learnt from.
        shares = () if sites is None else sites.shares
        self._site_shares = dict(zip(found.names[features:], shares, strict=True))
        self._usual_site = float(np.dot(shares, found.estimate[features:]))
        self._unit = study.facts.unit
        self.bse_ = np.where(known, found.std_error, np.nan)
        self.zvalues_ = np.where(known, found.z, np.nan)
        self.pvalues_ = np.where(known, found.p_value, np.nan)
        self.privacy_share_ = np.where(known, found.privacy_share, np.nan)
        self.cov_params_ = np.where(np.outer(known, known), found.covariance, np.nan)
        self.rounds_ = int(result.value.round)
        self._sizes = tuple(study.facts.records)
        self._agreed = f"{study.trust!s}, {self._relation()!s}"
        self._range_notes = self._said_of_ranges(result.value.start)
        for narrow in self._range_notes[1:]:
            self._tell(narrow, UnboundedFeatures)
        if found.drowned:
            self._tell(_drowned(found.drowned), DrownedByNoise)
        for doubt in found.doubts:
            self._tell(doubt, NotConverged)
        if self.family == "binomial":
            fewest, records = rarer(study, result.value), sum(self._sizes)
            if fewest.fewer_than(_EVENTS * len(known)):
                which = self.classes_.tolist()[fewest.place]
                self._tell(_few(which, fewest.share, records, len(known)), FewEvents)

    def _said_of_ranges(self, start: Any) -> list[str]:
        """Of ranges that were released: what they do, then whether that of the target may be too
        narrow, by the middle and the spread that were released of it afterwards."""
        ranges = ["columns"] * (self._ranges is not None) + ["target"] * self._targets.paid
        if not ranges:
            return []
        said = [
            f"Ranges of {' and '.join(ranges)} were released privately and moved outward by their "
            "width: a record beyond those of columns teaches nothing, a target is clipped."
        ]
        if self._targets.paid and abs(float(start.mean)) + _WELL_INSIDE * float(start.spread) > 1:
            low, high = self._targets.bounds
            said.append(
                f"The target's released range, {low:.4g} to {high:.4g}, may clip it: "
                "coefficients and intervals are then those of the clipped target, too near to "
                "zero; pass public target_bounds, or give more of epsilon (bounds_share)"
            )
        return said

    def conf_int(self, alpha: float = 0.05) -> np.ndarray:
        """Intervals (d + 1, 2) that hold each coefficient 1 - `alpha` of the time, the intercept
        first; NaN where not determined."""
        check_is_fitted(self)
        if not 0 < alpha < 1:
            raise InvalidInput(f"alpha = {alpha!r}: it lies between 0 and 1, as 0.05")
        return np.where(self.determined_[:, None], self.inference_.interval(1 - alpha), np.nan)

    def wald_test(self, names: Any) -> WaldTest:
        """That all of these coefficients are zero at once: a chi-square test."""
        check_is_fitted(self)
        return self.inference_.wald(self._tested(names))

    def lr_test(self, names: Any) -> LikelihoodRatioTest:
        """Of this model against the smaller one without these columns, which the noise is counted
        in: a likelihood-ratio test of what was released. It costs nothing more. `"site"` are all
        effects of parties."""
        check_is_fitted(self)
        return self.inference_.likelihood_ratio(self._tested(names))

    @property
    def _errors(self) -> str:
        return "sandwich by person" if self._unit is Unit.PERSON else self.covariance

    def _tested(self, names: Any) -> list[str]:
        given = [names] if isinstance(names, str) else list(names)
        sites = [f"{SITE}={name}" for name in self.site_effects_][1:]
        if SITE in given and sites and SITE not in self.names_:
            given = [*(name for name in given if name != SITE), *sites]
        return given

    def summary(self, alpha: float = 0.05) -> RegressionSummary:
        """Everything in a table: print it, or let a notebook show it."""
        from unisono.models.glm import LINKS, notes

        check_is_fitted(self)
        self.conf_int(alpha)  # refuses what is no alpha
        parties = len(self._sizes)
        target = LINKS[self.family]
        if self.family == "binomial":
            target = f"{target} of {self.classes_[1]}"
        header = {
            "Family": self.family,
            "Link": {"binomial": "logit", "gaussian": "identity", "poisson": "log"}[self.family],
            "Models": target,
            f"{self._unit.capitalize()}s": f"{sum(self._sizes):,}"
            + (f" of {parties} parties" * (parties > 1)),
            "epsilon, delta": f"{self.epsilon:g}, {self.delta:g}",
            "Rounds": f"{self.rounds_}, after one for scales",
            "Trust, relation": self._agreed,
            "Covariance": f"{self._errors}, noise counted in",
        }
        said = [
            *notes(self.inference_, self.family, self.errors),
            *self._range_notes,
            "privacy: the part of an interval's width that is the noise of privacy; bounded "
            "weights widen the rest, too.",
        ]
        if self.certificate_.simulated:
            said.append(_SIMULATED)
        title = "Generalised linear model with differential privacy"
        return RegressionSummary(title, header, self.inference_, said, alpha)

    def _found_parts(self) -> list[Markup]:
        found = self.summary()
        return replace(found, notes=[one for one in found.notes if one != _SIMULATED]).as_parts()

    # ------------------------------------------------------------- prediction

    def _scores(
        self, X: Any, offset: Any = None, exposure: Any = None, parties: Any = None
    ) -> np.ndarray:
        """η (n,); of parties with effects, by their own, or by the usual one."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if self.inference_.drowned:
            warn(_guessed(self.inference_.drowned), DrownedByNoise)
        low, high = self._limits(X.shape[1])
        estimate, features = self.inference_.estimate, X.shape[1]
        scores = estimate[0] + row_product(np.clip(X, low, high), estimate[1 : 1 + features])
        scores = scores + self._effects_of(parties, len(X))
        if offset is not None:
            scores = scores + one_each("offset", offset, len(X))
        if exposure is not None:
            scores = scores + np.log(one_each("exposure", exposure, len(X)))
        return np.asarray(scores)

    def _prediction(self) -> "Prediction":
        from unisono.models.glm import glm_prediction

        classes = tuple(self.classes_.tolist()) if self.family == "binomial" else ()
        return glm_prediction(
            self.family,
            self.inference_,
            self._limits(self.n_features_in_),
            self._inputs,
            classes,
            usual=self._site_shares,
        )

    def _kept_limits(self) -> tuple[np.ndarray, np.ndarray]:
        return self._limits(self.n_features_in_)

    def _settings_kept(self) -> dict[str, Any]:
        return {"family": self.family}

    def _result_kept(self) -> dict[str, Any]:
        from unisono.models.glm import LINKS, RATIOS, notes

        return {
            "family": self.family,
            "link": LINKS[self.family],
            "ratio": RATIOS[self.family],
            "confidence": 0.95,
            "coefficients": self.inference_.to_json(0.95),
            "names": list(self.names_),
            "covariance": self.inference_.covariance.tolist(),
            "note": " ".join(
                [*notes(self.inference_, self.family, self.errors), *self._range_notes]
            ),
        }

    def _effects_of(self, parties: Any, records: int) -> Any:
        if parties is None:
            return self._usual_site
        members = membership(parties, records)
        if strangers := sorted(set(members.names) - set(self.site_effects_)):
            known = ", ".join(self.site_effects_) or "none, as site_effects is False"
            raise InvalidInput(
                f"party {strangers[0]!r} has no effect of its own: there are {known}; leave "
                "parties out to predict for no party in particular"
            )
        own = dict(zip(self.site_effects_, [0.0, *self._site_estimates], strict=True))
        effects = np.zeros(records)
        for name, rows in zip(members.names, members.rows, strict=True):
            effects[rows] = own[name]
        return effects

    @property
    def _site_estimates(self) -> list[float]:
        found: list[float] = self.inference_.estimate[1 + self.n_features_in_ :].tolist()
        return found

    def predict(
        self, X: Any, offset: Any = None, exposure: Any = None, parties: Any = None
    ) -> np.ndarray:
        """The likelier label of every row (binomial), or its expected target; counts are those of
        one unit of exposure, where none is given. With `site_effects`, `parties` (n,) say whose
        effect counts; None: the mean of all, by their public sizes.

        Features outside the bounds of `fit` are clipped to them, as there. A coefficient that is
        not determined counts with the mean of its posterior, which is drawn to zero by the weak
        prior; a `DrownedByNoise` warning says so."""
        scores = self._scores(X, offset, exposure, parties)
        if self.family == "binomial":
            return np.asarray(self.classes_[(scores > 0).astype(int)])
        return np.exp(np.minimum(scores, 700.0)) if self.family == "poisson" else scores

    @available_if(_binomial)
    def decision_function(self, X: Any, offset: Any = None, parties: Any = None) -> np.ndarray:
        """Log-odds (n,) of the second class."""
        return self._scores(X, offset, parties=parties)

    @available_if(_binomial)
    def predict_proba(self, X: Any, offset: Any = None, parties: Any = None) -> np.ndarray:
        """Probabilities (n, 2) of the classes at the estimate."""
        scores = self._scores(X, offset, parties=parties)
        return np.stack([expit(-scores), expit(scores)], axis=1)

    @available_if(_binomial)
    def predict_log_proba(self, X: Any, offset: Any = None, parties: Any = None) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        scores = self._scores(X, offset, parties=parties)
        return -np.stack([np.logaddexp(0, scores), np.logaddexp(0, -scores)], axis=1)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        parties: Any = None,
    ) -> float:
        """Accuracy of a binomial, R² of a gaussian, the part of the deviance that is explained of a
        poisson. On private records it is a release that nobody pays for."""
        predicted = self.predict(X, offset, exposure, parties)
        if self.family == "binomial":
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        power = 1 if self.family == "poisson" else 0
        return float(d2_tweedie_score(y, predicted, sample_weight=sample_weight, power=power))


def _ends(name: str, given: Any) -> tuple[float, float]:
    """Public bounds of one column."""
    found = finite_range(given)
    if found is None:
        raise InvalidInput(
            f"{name} = {given!r}: give public (lowest, highest) values, known without looking at "
            "the data; nothing was spent"
        )
    return found


def _within(column: np.ndarray, low: float, high: float, what: str) -> np.ndarray:
    warn_of_clipping(column, low, high, what)
    return np.clip(column, low, high)


def _drowned(names: Sequence[str]) -> str:
    from unisono.models.glm import UNDETERMINED

    return (
        f"{', '.join(names)}: not determined (NaN), because all that could be said would be the "
        f"prior's. {UNDETERMINED}"
    )


def _guessed(names: Sequence[str]) -> str:
    return (
        f"{', '.join(names)} are not determined: predictions use what little is known of them, "
        "drawn to zero by the weak prior"
    )


def _few(which: Any, share: float, records: int, coefficients: int) -> str:
    return (
        f"about {100 * share:.1f} % of {records} records, or fewer, are {which!r}, by a noisy "
        f"count: that may be too few for {coefficients} coefficients ({_EVENTS} for each are "
        "usual), or none at all, and then estimates and intervals are not to be trusted. Use fewer "
        "columns, or more records"
    )


__all__ = ["PrivateGLM"]
