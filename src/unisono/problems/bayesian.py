"""What Bayesian models ask algorithms to infer: the posterior of a prior and a likelihood.

BayesianProblem      any likelihood (`likelihoods`), with independent normal priors
GaussianRegression   a line with normal errors of known spread, whose posterior has closed form: one
                     of the former, which algorithms for any likelihood can infer too
"""

from dataclasses import dataclass, field
from typing import Any

from unisono.core.sensitivity import positive
from unisono.problems.gaussian_family import Natural, prior
from unisono.problems.likelihoods import Likelihood, linear


@dataclass(frozen=True, kw_only=True)
class NormalPrior:
    """N(prior_mean, prior_variance) for every parameter, independently."""

    prior_mean: float = 0.0
    prior_variance: float = 1.0

    def __post_init__(self) -> None:
        self.prior(1)

    def prior(self, size: int, full: bool = False) -> Natural:
        """The prior of so many parameters, with a matrix of precisions or its diagonal."""
        return prior(size, self.prior_mean, self.prior_variance, full)

    @property
    def agreed(self) -> dict[str, Any]:
        return {"prior_mean": self.prior_mean, "prior_variance": self.prior_variance}


@dataclass(frozen=True)
class BayesianProblem(NormalPrior):
    """The posterior of a likelihood's parameters.

    >>> from unisono.problems.likelihoods import logistic
    >>> BayesianProblem(logistic(), prior_variance=4.0).agreed
    {'likelihood': 'logistic', 'prior_mean': 0.0, 'prior_variance': 4.0}
    """

    likelihood: Likelihood

    @property
    def agreed(self) -> dict[str, Any]:
        return {**self.likelihood.agreed, **super().agreed}


@dataclass(frozen=True)
class GaussianRegression(BayesianProblem):
    """y = x·θ + N(0, noise_std²), noise_std public: the Gaussian prior is conjugate.

    >>> GaussianRegression(0.5).likelihood.name
    'linear(0.5)'
    """

    likelihood: Likelihood = field(init=False, repr=False, compare=False)
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(noise_std=self.noise_std)
        object.__setattr__(self, "likelihood", linear(self.noise_std))

    @property
    def agreed(self) -> dict[str, Any]:
        """The likelihood by its spread, which says all of it."""
        prior = {"prior_mean": self.prior_mean, "prior_variance": self.prior_variance}
        return {"noise_std": self.noise_std, **prior}


__all__ = ["BayesianProblem", "GaussianRegression", "NormalPrior"]
