"""Bayesian linear models: a normal distribution of the weights, in the user's units.

By default they are learnt by Fisher scoring, as `glm` is: columns are standardised by a first
release that is paid for, the prior is weak in these units (a deviation of five target deviations,
or five log-odds, for a change by one of the column), the covariance is full and counts the noise
in, and how far targets scatter is estimated on the way.

By other algorithms the prior N(0, prior_variance) holds in scaled units, in which every number
spans [-1, 1]. Where the law of the noise in the answer is known, the posterior allows for it
(`algorithms.noise_aware`); where not, the result says that it has no intervals.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from unisono.algorithms.estimands import estimand
from unisono.algorithms.pvi_natural_gradient import for_intervals
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.blocks import row_product
from unisono.data.encoding import Frame, Values
from unisono.data.scaling import UnitScaling
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.glm import column_layout, regression, scored_rows
from unisono.models.line import posterior_by_scoring, scatter
from unisono.models.linear import SCORES
from unisono.models.model import (
    Choice,
    ModelConfig,
    ModelKind,
    Posed,
    Target,
    predicts,
    share_of_range,
)
from unisono.models.posterior import NO_INTERVALS, Posterior, posterior_of
from unisono.models.prediction import Scores
from unisono.problems.bayesian import BayesianProblem, GaussianRegression
from unisono.problems.glm import GeneralizedLinear
from unisono.problems.likelihoods import likelihood_named
from unisono.releases.algorithm import AlgorithmKind, RowScale

SCORING = "few noisy rounds of gradient and curvature, whose noise the posterior counts in"
# Of priors in scaled units, where nobody says otherwise and algorithms have no standardised ones.
LINE_VARIANCE, ODDS_VARIANCE = 9.0, 100.0


class BayesianLinearConfig(ModelConfig):
    """Normal errors of a known spread, and a normal prior."""

    noise_std: float | None = Field(
        None,
        gt=0,
        description="How far targets scatter around the model, in their own units; left out: "
        "estimated by Fisher scoring, from what is paid for anyway, and by other algorithms half "
        "of their range.",
    )
    prior_variance: float | None = Field(
        None,
        gt=0,
        description="How large weights may be before anything is known, in scaled units; left "
        "out: five deviations of the target for one of the column, by other algorithms than "
        "Fisher scoring 9.",
    )


class BayesianLogisticConfig(ModelConfig):
    """Two classes, and a normal prior."""

    link: Literal["logistic", "probit"] = Field(
        "logistic", description="How a score becomes a probability."
    )
    prior_variance: float | None = Field(
        None,
        gt=0,
        description="How large weights may be before anything is known, in scaled units; left "
        "out: five log-odds for one deviation of the column, by other algorithms than Fisher "
        "scoring 100.",
    )


def pose_linear(
    config: BayesianLinearConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """Rows (u, 1) with every range centred, as they are: divided by their lengths they would pose
    another regression."""
    if issubclass(algorithm.problem, GeneralizedLinear):
        return _scored("gaussian", config, schema)
    frame, scale = Frame(schema), Frame(schema).scaling("all")
    targets, features = frame.targets, len(frame.names) + 1
    spread = 1.0 if config.noise_std is None else config.noise_std / targets.half
    problem = GaussianRegression(spread, prior_variance=config.prior_variance or LINE_VARIANCE)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return scale.whole(frame.rows(values)), frame.labels(values, signed=False)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = _posterior(result.value, frame, problem, algorithm, study)
        return _shown(_in_units(found, scale, targets.half, targets.centre), frame)

    def score(study: Study, value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        return share_of_range(row_product(rows, _posterior(value, frame, problem).mean), labels)

    def prediction(study: Study, result: Result) -> Scores:
        return posterior_prediction(
            tuple(schema.features),
            frame.names,
            scale,
            _posterior(result.value, frame, problem, algorithm, study),
            "identity",
            centre=targets.centre,
            half=targets.half,
            spread=spread * targets.half,
        )

    settings = algorithm.suggest(problem, RowScale(features, frame.mean_square))
    return Posed(
        problem, features, encode, present, score=score, settings=settings, prediction=prediction
    )


def pose_logistic(
    config: BayesianLogisticConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """Labels -1 and +1, and rows (u, 1): as they are, or divided by their length, where the
    algorithm's steps need rows in the unit ball."""
    if issubclass(algorithm.problem, GeneralizedLinear):
        if config.link != "logistic":
            raise InvalidInput(
                f"link = {config.link!r} with {algorithm.name}, which has the logistic one: choose "
                "pvi-natural-gradient"
            )
        return _scored("binomial", config, schema)
    frame, scale = Frame(schema), Frame(schema).scaling("away from zero")
    likelihood = likelihood_named(config.link)
    problem = BayesianProblem(likelihood, prior_variance=config.prior_variance or ODDS_VARIANCE)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        rows = frame.rows(values)
        inner = scale.rows(rows)[0] if algorithm.unit_rows else scale.whole(rows)
        return inner, frame.labels(values, signed=True)

    def present(study: Study, result: Result) -> dict[str, Any]:
        scaled = _posterior(result.value, frame, problem, algorithm, study)
        negative, positive = frame.classes
        shown = _shown(_in_units(scaled, scale, 1.0, 0.0), frame)
        if algorithm.unit_rows:
            shown["note"] = f"{shown['note']} {SCORES}."
        return {"positive": positive, "negative": negative, **shown}

    def score(study: Study, value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        middle = _posterior(value, frame, problem).mean
        return (np.where(row_product(rows, middle) > 0, 1, -1) == labels).astype(float)

    def prediction(study: Study, result: Result) -> Scores:
        return posterior_prediction(
            tuple(schema.features),
            frame.names,
            scale,
            _posterior(result.value, frame, problem, algorithm, study),
            config.link,
            labels=frame.classes,
            divided=algorithm.unit_rows,
            averaged=True,
        )

    rule: dict[str, Any] = {}
    if not algorithm.unit_rows:  # rounds: the window then begins where Newton's method arrives
        rule = {"rounds": 12, **for_intervals(likelihood, frame.mean_square)}
    return Posed(
        problem,
        len(frame.names) + 1,
        encode,
        present,
        score=score,
        settings=rule,
        prediction=prediction,
    )


def posterior_prediction(
    inputs: tuple[str, ...],
    names: tuple[str, ...],
    scale: UnitScaling,
    found: Posterior,
    link: str,
    **more: Any,
) -> Scores:
    """By the posterior of weights of scaled rows; chances are averaged over it."""
    return Scores.linear(
        inputs,
        names,
        scale,
        found.mean[None, :],
        link,
        covariance=found.covariance,
        silence="" if found.noise_aware else NO_INTERVALS.removeprefix("no intervals: "),
        **more,
    )


def _scored(family: str, config: Any, schema: Schema) -> Posed:
    """The posterior of a generalised linear model, by the same rounds."""
    frame, signed = Frame(schema), family == "binomial"
    scale = frame.scaling("away from zero" if signed else "all")
    targets = None if signed else frame.targets
    made = regression(family, column_layout(frame), frame.features, targets)
    names = (*frame.names, "intercept")

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return (made.rows(frame.rows(values), frame.labels(values, signed=False)),)

    def believed(study: Study, result: Result) -> Posterior:
        given = config.prior_variance
        return posterior_by_scoring(made, study, result.value, scale, names, given)

    def prediction(study: Study, result: Result) -> Scores:
        inputs, found = tuple(schema.features), believed(study, result)
        if targets is None:
            words: dict[str, Any] = {"labels": frame.classes, "averaged": True}
            return posterior_prediction(inputs, frame.names, scale, found, "logistic", **words)
        spread = config.noise_std or scatter(made, study, result.value)
        words = {"centre": targets.centre, "half": targets.half, "spread": spread}
        return posterior_prediction(inputs, frame.names, scale, found, "identity", **words)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = believed(study, result)
        pairs = zip(frame.features, made.deviations(result.value), strict=True)
        spreads = {"deviations": {one.name: float(d) for one, d in pairs if not one.indicator}}
        if signed:
            negative, positive = frame.classes
            shown = _shown(_in_units(found, scale, 1.0, 0.0), frame) | spreads
            return {"positive": positive, "negative": negative, **shown}
        assert targets is not None
        shown = _shown(_in_units(found, scale, targets.half, targets.centre), frame)
        spread = config.noise_std or scatter(made, study, result.value)
        return (
            shown | spreads | {"noise_std": spread, "noise_std_estimated": config.noise_std is None}
        )

    def score(study: Study, value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        return scored_rows(made.problem, value, arrays[0])

    return Posed(
        made.problem, made.problem.width, encode, present, score=score, prediction=prediction
    )


def choose_linear(config: Any, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """The rounds whose errors know of the noise and rest on no supposed spread; for pure epsilon
    one release, which suffices: what it measures does not depend on the posterior so far."""
    if privacy.pure or unit is not Unit.RECORD:
        return Choice("one-shot-regression", "one noisy release of all sums and products")
    return Choice("fisher-scoring", SCORING)


def choose_logistic(config: Any, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """The one whose posterior knows of the noise, unless whole parties are to be hidden."""
    if unit is Unit.PARTY:
        return Choice("pvi-clipped-updates", "whole parties are to be hidden: clipped updates")
    if config.link == "logistic" and unit is Unit.RECORD and not privacy.pure:
        return Choice("fisher-scoring", SCORING)
    return Choice("pvi-natural-gradient", "noisy Newton steps, whose noise the posterior counts in")


def _notes(config: Any, algorithm: AlgorithmKind) -> Sequence[str]:
    if issubclass(algorithm.problem, GeneralizedLinear):
        return ()
    if algorithm.noise_aware is None:
        return ("Its posterior will not know of the noise, so it will have no intervals.",)
    return ()


def _draft_linear(schema: Schema) -> str:
    """What only people know of the target."""
    return (
        f"# noise_std: do you know, without these data, how far {schema.target or 'the target'} "
        "scatters around the line?\n# If not, leave it out: it is estimated, from what is paid for "
        "anyway.\n"
    )


BAYESIAN_LINEAR_REGRESSION = ModelKind(
    "bayesian-linear-regression",
    "predict a number, with a posterior of every weight",
    BayesianLinearConfig,
    Target.NUMBER,
    (GaussianRegression, GeneralizedLinear),
    pose_linear,
    choose_linear,
    learns=lambda config, schema: (
        f"{predicts('a linear model', schema)}, and how sure it is of every weight"
    ),
    notes=_notes,
    draft=_draft_linear,
    task="posterior",
    prediction=Scores,
)
BAYESIAN_LOGISTIC_REGRESSION = ModelKind(
    "bayesian-logistic-regression",
    "predict one of two classes, with a posterior of every weight",
    BayesianLogisticConfig,
    Target.TWO_CLASSES,
    (BayesianProblem, GeneralizedLinear),
    pose_logistic,
    choose_logistic,
    learns=lambda config, schema: (
        f"{predicts('a linear model', schema)}, and how sure it is of every weight"
    ),
    notes=_notes,
    task="posterior",
    prediction=Scores,
)


# ------------------------------------------------------------- reading a posterior


def _posterior(
    value: Any,
    frame: Frame,
    problem: BayesianProblem,
    algorithm: AlgorithmKind | None = None,
    study: Study | None = None,
) -> Posterior:
    """Of the scaled weights, made aware of the noise where the law of its effect is known."""
    names = (*frame.names, "intercept")
    aware = None if algorithm is None else algorithm.noise_aware
    refine = None if aware is None else aware(study)
    return posterior_of(value, names, problem.prior(len(names), full=True), refine)


def _in_units(found: Posterior, scale: UnitScaling, factor: float, offset: float) -> Posterior:
    """The posterior of factor · θ + (0, ..., offset) as weights of unscaled features."""
    slopes, intercepts = scale.coefficients(np.eye(len(found.mean)))
    matrix = factor * np.concatenate([slopes, intercepts[:, None]], axis=1).T
    shift = np.zeros(len(matrix))
    shift[-1] = offset
    return found.mapped(matrix, shift, found.names)


def _shown(found: Posterior, frame: Frame) -> dict[str, Any]:
    """Deviations only where they count the noise in; `learnt` false where they are the prior's."""
    numbers: dict[str, Any] = {"mean": found.mean.tolist()}
    shown: dict[str, Any] = {"names": list(found.names)}
    if found.noise_aware:
        numbers |= {"std": found.std.tolist(), "learnt": found.learnt.tolist()}
        shown["covariance"] = found.covariance.tolist()
    by_name = {word: dict(zip(found.names, own, strict=True)) for word, own in numbers.items()}
    return {
        "target": frame.target,
        **by_name,
        **shown,
        "noise_aware": found.noise_aware,
        "converged": found.converged,
        "floored": found.floored,
        "note": " ".join([estimand("posterior"), *found.notes]),
    }
