"""What Bayesian estimators share: from a private run to a posterior in the user's units."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from unisono.algorithms.noise_aware import Refine
from unisono.core.algorithm import Facts
from unisono.core.events import positive
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.data.blocks import row_product, row_variance
from unisono.data.scaling import UnitScaling
from unisono.errors import InvalidInput
from unisono.estimators.configuration import FitPlan, in_rounds
from unisono.estimators.documentation import PARTIES
from unisono.estimators.records import Records
from unisono.estimators.scored import FISHER_SCORING, ScoredEstimator, scored_plan
from unisono.estimators.statements import DrownedByNoise, NotConverged
from unisono.models.posterior import NOT_CONVERGED, Posterior, drowned, posterior_of

if TYPE_CHECKING:
    from unisono.models.prediction import Prediction
    from unisono.releases.algorithm import Method

ALGORITHM = (
    'algorithm : "auto" or a name. Auto takes fisher-scoring, unless something is asked for that '
    "it does not have: delta = 0, persons, no bounds at all, or a setting of another one."
)
SHARED = (
    "clip : the largest norm of one record's statistic; None: the rule of the module. Not for "
    "Fisher scoring.",
    "noise_aware : count the noise of privacy in (see `noise_aware`). Without it there are no "
    "intervals: noisy statistics are taken for exact ones. Fisher scoring always does.",
    "relation",
    "trust",
    *PARTIES,
    "engine",
)
FITTED = (
    "posterior_ : a `Posterior` of the coefficients in the user's units: mean, covariance, std, "
    "interval(), learnt, sample(), kl(), summary().",
    "coef_, intercept_ : its mean.",
    "converged_ : whether the rounds agree with each other to within their noise, and reach as far "
    "as effects are large; where not, intervals are not to be trusted, and a `NotConverged` "
    "warning says so.",
    "algorithm_ : what learnt.",
)


class BayesianEstimator(ScoredEstimator):
    """From a private run to a posterior; subclasses know the other algorithm and its noise."""

    algorithm: str
    clip: float | None
    prior_variance: float | None
    _other: str  # what learns where it is not Fisher scoring
    noise_aware: bool
    engine: str
    _posterior: Posterior  # of θ in scaled units
    posterior_: Posterior  # in the user's

    def _found_parts(self) -> list[Markup]:
        return self.posterior_.as_parts()

    def _method(self, facts: Facts, trust: Trust, promise: Privacy) -> tuple["Method", Refine]:
        """The algorithm, and what makes its answer aware of the noise."""
        raise NotImplementedError

    def _in_the_ball(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows (u, 1) as they are: dividing them by their length would change the model."""
        return scale.whole(X), labels

    def _infer(self, records: Records) -> None:
        """Sets the posterior of θ in scaled units."""
        if self.prior_variance is not None:
            positive(prior_variance=self.prior_variance)

        def planned(facts: Facts, trust: Trust, promise: Privacy) -> FitPlan:
            self._scored = self._takes_scoring(facts, promise)
            if self._scored:
                problem = self._regression(facts.features - 1).problem
                return scored_plan(problem, {}, facts, trust, promise, self.engine)
            made = self._method(facts, trust, promise)
            return replace(in_rounds(made[0], facts, trust, self.engine), kept=made)

        result, plan = self._run(records, planned)
        value, self.algorithm_ = result.value, plan.study.algorithm.name
        given = getattr(self, "feature_names_in_", [f"x{j}" for j in range(records.width)])
        if self._declared is not None:
            given = self.encoded_names_
        names = (*map(str, given), "intercept")
        if self._scored:
            q = self._read_scored(plan.study, value, names)
        else:
            method, refine = plan.kept
            start = method.problem.prior(len(names), full=True)
            q = posterior_of(value, names, start, refine if self.noise_aware else None)
        self._posterior, self.converged_ = q, q.converged
        if q.floored:
            self._tell(drowned(q.floored, len(q.mean)), DrownedByNoise)
        if q.measured is not None and self._scored and not q.measured.all():
            unknown = [name for name, own in zip(q.names, q.measured, strict=True) if not own]
            self._tell(f"noise hides what data say of {', '.join(unknown)}", DrownedByNoise)
        if not q.converged:
            self._tell(" ".join(q.doubts) or NOT_CONVERGED, NotConverged)

    def _takes_scoring(self, facts: Facts, promise: Privacy) -> bool:
        """By what is asked for, or by the rule."""
        if self.algorithm not in ("auto", FISHER_SCORING, self._other):
            raise InvalidInput(
                f"algorithm = {self.algorithm!r}: choose one of auto, {FISHER_SCORING}, "
                f"{self._other}; nothing was spent"
            )
        able = self._scorable(facts, promise)
        if self.algorithm == FISHER_SCORING:
            missing = self._unscorable
            if not able or missing:
                raise InvalidInput(
                    f"algorithm = {FISHER_SCORING!r} needs delta > 0, single records, bounds of "
                    f"the features{missing and f', and not {missing}'}; nothing was spent"
                )
            return True
        return self.algorithm == "auto" and able and not self._unscorable

    @property
    def _unscorable(self) -> str:
        """What was asked for that Fisher scoring does not have."""
        if self.clip is not None:
            return "clip"
        return "" if self.noise_aware else "noise_aware=False"

    def _read_scored(self, study: Study, value: Any, names: Sequence[str]) -> Posterior:
        from unisono.models.line import posterior_by_scoring

        made = self._regression(study.method.problem.features)
        return posterior_by_scoring(made, study, value, self._scaling, names, self.prior_variance)

    def _publish(self, factor: float, offset: float) -> Posterior:
        """The posterior of factor · θ + (0, ..., offset) as coefficients of unscaled features."""
        slopes, intercepts = self._scaling.coefficients(np.eye(len(self._posterior.mean)))
        matrix = factor * np.concatenate([slopes, intercepts[:, None]], axis=1).T
        shift = np.zeros(len(matrix))
        shift[-1] = offset
        return self._posterior.mapped(matrix, shift, self._posterior.names)

    def _by_posterior(self, link: str, **more: Any) -> "Prediction":
        """How it predicts, by the posterior of scaled coefficients."""
        from unisono.models.bayesian import posterior_prediction

        return posterior_prediction(
            self._inputs, self._encoded_names, self._scaling, self._posterior, link, **more
        )

    def _result_kept(self) -> dict[str, Any]:
        found = self.posterior_
        kept: dict[str, Any] = {"mean": dict(zip(found.names, map(float, found.mean), strict=True))}
        if found.noise_aware:
            kept["std"] = dict(zip(found.names, map(float, found.std), strict=True))
            kept["learnt"] = dict(zip(found.names, map(bool, found.learnt), strict=True))
        return kept | {"noise_aware": found.noise_aware, "note": " ".join(found.notes)}

    def _latent(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of θ·row (n,)."""
        centre = row_product(rows, self._posterior.mean)
        return centre, row_variance(rows, self._posterior.covariance)


__all__ = ["ALGORITHM", "FITTED", "SHARED", "BayesianEstimator"]
