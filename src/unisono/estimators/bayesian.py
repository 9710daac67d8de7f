"""Bayesian regression and classification: not one answer but a posterior, `posterior_`.

By default both are learnt by Fisher scoring (`algorithms.fisher_scoring`), as `PrivateGLM` is:
columns are standardised by a first release, the prior is weak in these units (five deviations of
the target, or five log-odds, for a change by one of the column), the covariance is full and counts
the noise in, and how far targets scatter is estimated on the way. What follows is about the other
algorithms, which are there for pure epsilon, probit and persons with several records.

A record enters as the row (u, 1) of its scaled features (`scaling`), and the posterior of their
coefficients θ is mapped to the user's units, where an affine map of a normal is a normal again.

Regression      t = θ·(u, 1) + N(0, σ_e²), with targets t in [-1, 1] and every range of features
centred to [-1, 1]. Dividing rows by their length, as `PrivateRidge` does, would change the noise of
each record; here rows stay as they are and the public clip is the norm that (u t, uuᵀ) can have,

    C² = max |(u, 1)|⁴ + |(u, 1)|² t² = D² + D,    D = d + 1, or 2 where the norm of u is bounded

so that nothing inside the bounds is clipped. A smaller clip shrinks a record's whole statistic: it
gives long records less weight and, since it depends on t a little, a small bias.

Classification  P(y) = g(y θ·(u, 1)), g logistic or normal (probit), so that coefficients are plain
log-odds (or probits) per unit. Long rows are weighted down, not shortened: a weight that depends on
the row alone costs information but brings no bias (`algorithms.pvi_natural_gradient`).

Priors  N(0, σ_θ²) on scaled coefficients, which say what happens over *half* of a public range. A
column's own deviation is unknown, and usually a tenth to a half of that; effects of 2.5 log-odds
per deviation, the weak prior of Gelman et al. (2008), are then 5 to 25 over half of the range.
Hence σ_θ = 10 for classes. Targets of a regression lie in [-1, 1]: σ_θ = 3 lets a third of a
column's range carry the target through all of its own. A column that fills a hundredth of its
bounds has larger coefficients than that: tighten its bounds.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, ndtr
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from unisono.algorithms.noise_aware import Refine, aware_of_rounds, aware_of_statistics
from unisono.core.algorithm import Facts
from unisono.core.defaults import BOUNDS_SHARE, RELATION
from unisono.core.events import positive
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.data.blocks import row_product
from unisono.data.scaling import target_scaling
from unisono.errors import InvalidInput
from unisono.estimators.classifiers import classed
from unisono.estimators.documentation import documented
from unisono.estimators.inference import ALGORITHM, FITTED, SHARED, BayesianEstimator
from unisono.estimators.statements import (
    UNBOUNDED_TARGETS,
    UNKNOWN_SPREAD,
    UnboundedFeatures,
)
from unisono.estimators.weights import refuse_others

if TYPE_CHECKING:
    from unisono.models.posterior import Posterior
    from unisono.models.prediction import Prediction
    from unisono.releases.algorithm import Method

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"logistic": expit, "probit": ndtr}


class BayesianLinearRegression(RegressorMixin, BayesianEstimator):
    _centred = "all"
    _model = "bayesian-linear-regression"
    __doc__ = documented(
        "Bayesian linear regression by Fisher scoring, or from one noisy release of Σ xxᵀ and\n"
        "    Σ xy.\n\n"
        "    Gaussian noise on bounded sums (Laplace if delta = 0); no sampling.",
        (
            "bounds",
            "target_bounds",
            "noise_std : public spread σ_e of targets about the line, in their units. None: "
            "estimated, from what Fisher scoring releases anyway; a one-shot regression takes half "
            "the width of target_bounds, the largest possible: intervals are then wider than "
            "need be.",
            "prior_variance : σ_θ² of every coefficient, the intercept too, with features "
            "and targets scaled to [-1, 1]. None: five deviations of the target for one of the "
            "column, in a one-shot regression 9.",
            ALGORITHM,
            *SHARED,
        ),
        (*FITTED, "noise_std_ : the spread that was given, estimated or supposed."),
    )
    _other = "one-shot-regression"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        target_bounds: tuple[float, float] | None = None,
        noise_std: float | None = None,
        prior_variance: float | None = None,
        algorithm: str = "auto",
        clip: float | None = None,
        noise_aware: bool = True,
        relation: str = RELATION.value,
        trust: str | None = None,
        records: Any = None,
        ledger: Any = None,
        minimum_parties: int | None = None,
        colluders: int | None = None,
        random_state: Any = None,
        bounds_share: float = BOUNDS_SHARE,
        columns: Any = None,
        records_per_person: int | None = None,
        person_at_parties: int = 1,
        engine: str = "in-process",
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.bounds_share, self.columns = bounds_share, columns
        self.records_per_person, self.person_at_parties = records_per_person, person_at_parties
        self.target_bounds, self.noise_std = target_bounds, noise_std
        self.prior_variance, self.clip, self.noise_aware = prior_variance, clip, noise_aware
        self.relation, self.trust, self.algorithm = relation, trust, algorithm
        self.records, self.ledger, self.minimum_parties = records, ledger, minimum_parties
        self.colluders, self.random_state, self.engine = colluders, random_state, engine

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, parties: Any = None, persons: Any = None, **others: Any) -> Any:
        """Learn from rows X (n, d), targets y (n,), the party and the person of each row (n,). Of
        a frame, or of a path, y, parties and persons may be names of columns."""
        refuse_others(self, others)
        records = self._read(X, y, parties, persons, numeric=True)
        self._targets = target_scaling(self._target_bounds)
        self._spread = self._noise()
        self._infer(records.mapped(self._targets.scaled))
        self.posterior_ = self._publish(self._targets.half, self._targets.centre)
        self.coef_, self.intercept_ = self.posterior_.mean[:-1], float(self.posterior_.mean[-1])
        self.noise_std_ = self._targets.half * self._spread
        if self.noise_std is None and not self._scored:
            self._tell(UNKNOWN_SPREAD)
        if self._target_bounds is None:
            self._tell(UNBOUNDED_TARGETS, UnboundedFeatures)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected targets (n,); with `return_std` also the deviation of a new target from them,
        which holds what is not known of the coefficients and the spread about the line."""
        check_is_fitted(self)
        X = self._matrix(X)
        centre, spread = self._latent(self._scaling.whole(X))
        expected = self._targets.half * centre + self._targets.centre
        if not return_std:
            return expected
        return expected, self._targets.half * np.sqrt(spread + self._spread**2)

    def _read_scored(self, study: Study, value: Any, names: Sequence[str]) -> "Posterior":
        from unisono.models.line import scatter

        if self.noise_std is None:
            made = self._regression(study.method.problem.features)
            self._spread = scatter(made, study, value) / self._targets.half
        return super()._read_scored(study, value, names)

    def _prediction(self) -> "Prediction":
        return self._by_posterior(
            "identity",
            centre=self._targets.centre,
            half=self._targets.half,
            spread=self._spread * self._targets.half,
        )

    def _settings_kept(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std, "prior_variance": self.prior_variance}

    def _noise(self) -> float:
        """σ_e in scaled units, as it is known before the fit."""
        if self.noise_std is None:
            return 1.0
        positive(noise_std=self.noise_std)
        return self.noise_std / self._targets.half

    def _method(self, facts: Facts, trust: Trust, promise: Privacy) -> tuple["Method", Refine]:
        from unisono.algorithms.pvi_analytic import ONE_SHOT_REGRESSION
        from unisono.models.bayesian import LINE_VARIANCE
        from unisono.problems.bayesian import GaussianRegression

        square = facts.features if self._scale(facts.features - 1).norm is None else 2
        clip = math.sqrt(square**2 + square) if self.clip is None else self.clip
        variance = LINE_VARIANCE if self.prior_variance is None else self.prior_variance
        problem = GaussianRegression(self._noise(), prior_variance=variance)
        method = ONE_SHOT_REGRESSION.method(problem, promise, clipping_norm=clip)
        return method, aware_of_statistics(Study(method, facts, trust))


class BayesianLogisticRegression(ClassifierMixin, BayesianEstimator):
    _centred = "away from zero"
    _model = "bayesian-logistic-regression"
    __doc__ = documented(
        "Bayesian classification into two classes by Fisher scoring, or by noisy Newton steps.\n\n"
        "    Gaussian noise on bounded sums in every round, composed exactly, no sampling.",
        (
            "bounds",
            "classes",
            'link : "logistic" or "probit".',
            "rounds : of natural gradients, which are then what learns; the later five eighths "
            "make the posterior. More do not cost privacy, the noise grows with them. None: 12, "
            "where they learn.",
            "prior_variance : σ_θ² of every coefficient, the intercept too, in log-odds (or "
            "probits) over half of a public range. None: five log-odds for one deviation of the "
            "column, with natural gradients 100 over half of a public range.",
            ALGORITHM,
            *SHARED,
        ),
        (*FITTED, "classes_ : the labels, sorted."),
    )
    _pure = False
    _family = "binomial"
    _other = "pvi-natural-gradient"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        classes: Any = None,
        link: str = "logistic",
        rounds: int | None = None,
        prior_variance: float | None = None,
        algorithm: str = "auto",
        clip: float | None = None,
        noise_aware: bool = True,
        relation: str = RELATION.value,
        trust: str | None = None,
        records: Any = None,
        ledger: Any = None,
        minimum_parties: int | None = None,
        colluders: int | None = None,
        random_state: Any = None,
        bounds_share: float = BOUNDS_SHARE,
        columns: Any = None,
        records_per_person: int | None = None,
        person_at_parties: int = 1,
        engine: str = "in-process",
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.classes = epsilon, delta, bounds, classes
        self.bounds_share, self.columns = bounds_share, columns
        self.records_per_person, self.person_at_parties = records_per_person, person_at_parties
        self.link, self.rounds, self.algorithm = link, rounds, algorithm
        self.prior_variance, self.clip, self.noise_aware = prior_variance, clip, noise_aware
        self.relation, self.trust, self.records, self.ledger = relation, trust, records, ledger
        self.minimum_parties, self.colluders = minimum_parties, colluders
        self.random_state, self.engine = random_state, engine

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score, tags.classifier_tags.multi_class = True, False
        return tags

    def fit(self, X: Any, y: Any, parties: Any = None, persons: Any = None, **others: Any) -> Any:
        """Learn from rows X (n, d), labels y (n,), the party and the person of each row (n,). Of a
        frame, or of a path, y, parties and persons may be names of columns."""
        refuse_others(self, others)
        if self.link not in _LINKS:
            raise InvalidInput(f"link = {self.link!r}: choose one of {', '.join(_LINKS)}")
        records = self._read(X, y, parties, persons, numeric=False)
        self._infer(classed(self, records, 2, binary=True, signed=lambda _: True)[0])
        self.posterior_ = self._publish(1.0, 0.0)
        self.coef_, self.intercept_ = self.posterior_.mean[None, :-1], self.posterior_.mean[-1:]
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Expected scores (n,), positive for the second class."""
        return self._latent(self._rows(X))[0]

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The likelier label of every row; with `return_std` also how uncertain the *probability*
        of the second class is: its standard deviation (n,) over the posterior."""
        chance, spread = self._chances(X)
        labels = self.classes_[(chance > 0.5).astype(int)]
        return (labels, spread) if return_std else labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, 2) of the classes, averaged over the posterior."""
        chance = self._chances(X)[0]
        return np.stack([1 - chance, chance], axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))

    @property
    def _unscorable(self) -> str:
        if self.link != "logistic":
            return f"link={self.link!r}"
        return "rounds" if self.rounds is not None else super()._unscorable

    def _scored_labels(self, labels: np.ndarray) -> np.ndarray:
        """-1 and +1 as 0 and 1."""
        return (labels + 1) / 2

    def _chances(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of P(second class) by Gauss-Hermite quadrature of the scores."""
        centre, spread = self._latent(self._rows(X))
        chances = _LINKS[self.link](centre[:, None] + np.sqrt(spread)[:, None] * _NODES)
        expected = row_product(chances, _WEIGHTS)
        squares = row_product((chances - expected[:, None]) ** 2, _WEIGHTS)
        return expected, np.sqrt(np.maximum(squares, 0.0))

    def _prediction(self) -> "Prediction":
        return self._by_posterior(self.link, labels=tuple(self.classes_.tolist()), averaged=True)

    def _settings_kept(self) -> dict[str, Any]:
        return {"link": self.link, "prior_variance": self.prior_variance}

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._scaling.whole(self._matrix(X))

    def _method(self, facts: Facts, trust: Trust, promise: Privacy) -> tuple["Method", Refine]:
        from unisono.algorithms.pvi_natural_gradient import NATURAL_GRADIENT, for_intervals
        from unisono.models.bayesian import ODDS_VARIANCE
        from unisono.problems.bayesian import BayesianProblem
        from unisono.problems.likelihoods import likelihood_named

        likelihood, features = likelihood_named(self.link), facts.features - 1
        variance = ODDS_VARIANCE if self.prior_variance is None else self.prior_variance
        # Evenly spread features have a mean square of a third; a bound on the norm leaves 1.
        square = features / 3 if self._scale(features).norm is None else min(1.0, features / 3)
        method = NATURAL_GRADIENT.method(
            BayesianProblem(likelihood, prior_variance=variance),
            promise,
            rounds=12 if self.rounds is None else self.rounds,
            **for_intervals(likelihood, square, self.clip),
        )
        return method, aware_of_rounds(Study(method, facts, trust))


__all__ = ["BayesianLinearRegression", "BayesianLogisticRegression"]
