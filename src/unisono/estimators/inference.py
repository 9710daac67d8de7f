"""What Bayesian estimators share: from a private run to a posterior in the user's units."""

from collections.abc import Callable
from typing import Any

import numpy as np

from unisono.core.algorithm import Algorithm, Facts
from unisono.core.events import positive
from unisono.core.trust import Relation, Trust
from unisono.estimators.configuration import Plan, in_rounds
from unisono.estimators.documentation import PARTIES
from unisono.estimators.foundation import PrivateEstimator
from unisono.estimators.posterior import Posterior, drowned
from unisono.estimators.statements import DrownedByNoise
from unisono.models.gaussian_family import Natural, covariance, mean, prior

SHARED = (
    "prior_variance : σ_θ² of every coefficient, the intercept too, in scaled units: features and "
    "targets in [-1, 1], rows of a classifier in the unit ball.",
    "clip : the largest norm of one record's statistic; None: the rule of the module.",
    "noise_aware : count the noise of privacy in (see `noise_aware`). Without it intervals take "
    "noisy statistics for exact ones and are far too narrow.",
    "relation", "trust", *PARTIES, "engine",
)  # fmt: skip
FITTED = (
    "posterior_ : a `Posterior` of the coefficients in the user's units: mean, covariance, std, "
    "interval(), sample(), kl(), summary().",
    "coef_, intercept_ : its mean.",
)

Method = tuple[Algorithm, Callable[[Natural], Natural]]


class BayesianEstimator(PrivateEstimator):
    """From a private run to a posterior; subclasses know the algorithm and its noise."""

    prior_variance: float
    noise_aware: bool
    engine: str
    _posterior: Posterior  # of θ in scaled units

    def _method(self, facts: Facts, trust: Trust, relation: Relation) -> Method:
        """The algorithm, and what makes its answer aware of the noise."""
        raise NotImplementedError

    def _infer(self, X: np.ndarray, labels: np.ndarray, parties: Any) -> None:
        """Sets the posterior of θ in scaled units."""
        positive(prior_variance=self.prior_variance)
        aware: list[Callable[[Natural], Natural]] = []

        def planned(facts: Facts, trust: Trust, relation: Relation) -> Plan:
            algorithm, refine = self._method(facts, trust, relation)
            aware.append(refine)
            return in_rounds(algorithm, facts, trust, self.engine)

        value = self._run(X, labels, parties, planned).value
        precision = np.asarray(value.precision, float)
        full = precision if precision.ndim == 2 else np.diag(precision)
        answer = Natural(np.asarray(value.shift, float), full)
        q = aware[0](answer) if self.noise_aware else answer
        given = getattr(self, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
        names, floored = (*map(str, given), "intercept"), int(value.floored)
        self._posterior = Posterior(mean(q), covariance(q), names, floored, bool(self.noise_aware))
        if floored:
            self._tell(drowned(floored, len(full)), DrownedByNoise)

    def _publish(self, factor: float, offset: float) -> Posterior:
        """The posterior of factor · θ + (0, ..., offset) as coefficients of unscaled features."""
        slopes, intercepts = self._scaling.coefficients(np.eye(len(self._posterior.mean)))
        matrix = factor * np.concatenate([slopes, intercepts[:, None]], axis=1).T
        shift = np.zeros(len(matrix))
        shift[-1] = offset
        return self._posterior.mapped(matrix, shift, self._posterior.names)

    def _prior(self, facts: Facts) -> Natural:
        return prior(facts.features, 0.0, self.prior_variance, full=True)

    def _latent(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of θ·row (n,)."""
        spread = ((rows @ self._posterior.covariance) * rows).sum(1)
        return rows @ self._posterior.mean, np.maximum(spread, 0.0)


__all__ = ["FITTED", "SHARED", "BayesianEstimator", "Method"]
