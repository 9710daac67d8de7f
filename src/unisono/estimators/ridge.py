"""Private ridge regression.

Three ways to the same line, and a published rule of public facts which of them is predicted to lose
least (`algorithms.regression_choice`):

    fisher-scoring          counts of every column first, then one to three rounds of gradient and
                            curvature of standardised records; nothing is divided by its length
    adaptive-statistics     sums of products of all records at once, and a ridge that their noise
                            asks for; also for pure epsilon
    gradient-perturbation   noisy full gradients; the one that adds up persons with many records
    output-perturbation     one noisy average of the parties' own minimisers, for pure epsilon
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from unisono.core import notebook
from unisono.core.algorithm import Facts
from unisono.core.defaults import BOUNDS_SHARE, RELATION
from unisono.core.events import positive
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.core.words import did_you_mean
from unisono.data.blocks import row_product
from unisono.data.encoding import Frame
from unisono.data.scaling import UnitScaling
from unisono.errors import InvalidInput
from unisono.estimators.configuration import FitPlan, FitRequest, plan, require_numbers
from unisono.estimators.documentation import PARTIES, documented
from unisono.estimators.foundation import FOR_PREDICTION, unknown_bounds
from unisono.estimators.scored import FISHER_SCORING, ScoredEstimator, scored_plan
from unisono.estimators.statements import UNBOUNDED_TARGETS, UnboundedFeatures

if TYPE_CHECKING:
    from unisono.algorithms.feature_subsets import Features
    from unisono.models.prediction import Prediction

ALGORITHMS = (
    *("auto", FISHER_SCORING, "adaptive-statistics"),
    *("gradient-perturbation", "output-perturbation", "dp-sgd-convex"),
)
ROUNDS = 200
_SUMS = (FISHER_SCORING, "adaptive-statistics")  # from whose sums columns can be left out
# Beyond so many columns sums of their products are too many numbers to compete.
_MOST_COLUMNS = 256


class PrivateRidge(RegressorMixin, ScoredEstimator):
    __doc__ = documented(
        "Differentially private least squares with an L2 penalty: ŷ = intercept_ + coef_·x.\n\n"
        "    By Fisher scoring, records count as they are. By the other algorithms a row (u, 1)\n"
        "    and its target t in [-1, 1] are both divided by r = ||(u, 1)||, which weighs the\n"
        "    record by 1 / r² and keeps the prediction linear.",
        (
            "bounds",
            "target_bounds",
            "relation",
            "trust",
            f'algorithm : "auto", which takes the one that is predicted to lose least of R², by '
            f"public facts alone, or one of {', '.join(ALGORITHMS[1:])}.",
            "regularisation : λ of λ/2 ||θ||², added to the average of half squared errors, with "
            "features and targets scaled by their bounds; the intercept is regularised too. None: "
            "as little as the algorithm can do with; for Fisher scoring a weak prior of five "
            "deviations of the target for a change by one of the column, for sums of products what "
            "their noise asks for.",
            "features : learn from some columns only: these, by name or place, or so many, those "
            "that matter most by the same noisy sums. What is released is of all columns, so that "
            "this costs nothing more, and a search among subsets pays for one fit; by Fisher "
            "scoring and adaptive statistics. None: all.",
            f"rounds : noisy gradients, which are then what learns; None: {ROUNDS}, where they "
            "are.",
            *PARTIES,
            "largest_weight",
        ),
        (
            "coef_, intercept_ : of a row inside the bounds. For standard errors, intervals and "
            "tests see `PrivateGLM`.",
            "algorithm_, reason_ : what learnt, and why it was taken where nobody said.",
        ),
    )
    _model = "linear-regression"
    # Numbers may lie in (0, 1) too; which columns have two values alone, counts tell.
    _unit_range_is_indicator = False
    _afterwards = ("regularisation", "features")
    algorithm: str
    regularisation: float | None
    features: Any
    rounds: int | None
    coef_: np.ndarray
    intercept_: float
    _parameters: np.ndarray  # of (u, 1)
    _choice: tuple[str, str] | None = None

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        target_bounds: Any = None,
        relation: str = RELATION.value,
        trust: str | None = None,
        algorithm: str = "auto",
        regularisation: float | None = None,
        rounds: int | None = None,
        records: Any = None,
        ledger: Any = None,
        minimum_parties: int | None = None,
        colluders: int | None = None,
        random_state: Any = None,
        bounds_share: float = BOUNDS_SHARE,
        columns: Any = None,
        records_per_person: int | None = None,
        person_at_parties: int = 1,
        largest_weight: float | None = None,
        features: Any = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.bounds_share, self.columns = bounds_share, columns
        self.records_per_person, self.person_at_parties = records_per_person, person_at_parties
        self.target_bounds, self.largest_weight = target_bounds, largest_weight
        self.relation, self.trust, self.algorithm = relation, trust, algorithm
        self.regularisation, self.rounds, self.records = regularisation, rounds, records
        self.ledger, self.minimum_parties, self.colluders = ledger, minimum_parties, colluders
        self.random_state, self.features = random_state, features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(
        self, X: Any, y: Any, parties: Any = None, persons: Any = None, sample_weight: Any = None
    ) -> Any:
        """Learn from rows X (n, d), targets y (n,), the party and the person of each row (n,), and
        weights (n,), which count before records are bounded. Of a frame all of these may be names
        of columns, of a path y, parties and persons may."""
        if self.algorithm not in ALGORITHMS:
            raise InvalidInput(
                f"algorithm = {self.algorithm!r}: choose one of {', '.join(ALGORITHMS)}"
                f"{did_you_mean(self.algorithm, ALGORITHMS)}"
            )
        require_numbers(self.epsilon, self.rounds or ROUNDS, self.regularisation)
        records = self._read(X, y, parties, persons, numeric=True, weights=sample_weight)
        self._choice = None  # taken once, for the whole promise
        result, plan = self._run(records, self._plan)
        assert self._choice is not None
        self.algorithm_, self.reason_ = self._choice
        if self._scored:
            self._by_scoring(plan.study, result.value)
        else:
            parameters = np.asarray(result.value, float)[None, :]
            self._parameters = self._targets.half * parameters
            self._parameters[:, -1] += self._targets.centre
            slopes, intercepts = self._scaling.coefficients(self._parameters)
            self.coef_, self.intercept_ = slopes[0], float(intercepts[0])
        if self.algorithm == "auto":
            self._tell(f"{self.algorithm_} was taken: {self.reason_}")
        if self._target_bounds is None and not self._targets.paid:
            self._tell(UNBOUNDED_TARGETS, UnboundedFeatures)
        return self

    def _plan(self, facts: Facts, trust: Trust, promise: Privacy) -> FitPlan:
        """The one that is asked for, or that the rule takes."""
        if self._choice is None:
            self._choice = self._chosen(facts, trust, promise)
        self._scored = self._choice[0] == FISHER_SCORING
        return self._planned_by(self._choice[0], facts, trust, promise)

    def _chosen(self, facts: Facts, trust: Trust, promise: Privacy) -> tuple[str, str]:
        from unisono.algorithms.regression_choice import choice_of

        if self.algorithm != "auto":
            return self.algorithm, "as asked for"
        able = tuple(self._able(facts, promise))
        if self.features is not None:
            able = tuple(name for name in able if name in _SUMS) or _SUMS[-1:]
        if len(able) == 1:
            return able[0], "it alone has what was asked for"
        made = {name: self._planned_by(name, facts, trust, promise).study for name in able}
        found = choice_of(made)
        return found.algorithm, found.reason

    def _able(self, facts: Facts, promise: Privacy) -> Iterator[str]:
        """What public facts allow, the first of equals first."""
        few = facts.features <= _MOST_COLUMNS
        alone = facts.records_per_person is None
        if promise.delta and self.rounds is not None:
            yield "gradient-perturbation"
            return
        if few and self._scorable(facts, promise):
            yield FISHER_SCORING
        if few and alone:
            yield "adaptive-statistics"
        yield "gradient-perturbation" if promise.delta else "output-perturbation"

    def _planned_by(self, name: str, facts: Facts, trust: Trust, promise: Privacy) -> FitPlan:
        if self.features is not None and name not in _SUMS:
            raise InvalidInput(
                f"features = {self.features!r} with {name}: columns are chosen among after noisy "
                f"sums of all of them were released; choose one of {', '.join(_SUMS)}; nothing was "
                "spent"
            )
        if name == FISHER_SCORING:
            if not self._scorable(facts, promise):
                raise InvalidInput(_UNSCORABLE)
            from unisono.models.line import PREDICTION

            # A penalty that is given is all of it; otherwise a prior helps on the way.
            given = self.regularisation is not None
            said = {"prediction": True} if given else PREDICTION
            problem = self._regression(facts.features - 1).problem
            self._features_kept(facts.features - 1)  # refuses what are no columns
            return scored_plan(problem, said, facts, trust, promise)
        request = FitRequest(
            name,
            "squares",
            1,
            promise.epsilon,
            promise.delta,
            promise.relation,
            self.regularisation,
            self.rounds or ROUNDS,
            features=self._features_kept(facts.features - 1),
        )
        return plan(request, facts, trust)

    def _features_kept(self, width: int) -> "Features | None":
        """Which of the encoded columns have a coefficient; a category's name stands for all that
        are made of it."""
        from unisono.algorithms.feature_subsets import require_places

        wanted = self.features
        if wanted is None:
            return None
        if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool):
            positive(features=int(wanted))
            return int(wanted)
        if isinstance(wanted, str) or not isinstance(wanted, Sequence | np.ndarray):
            raise InvalidInput(f"features = {wanted!r}: give a list of columns, or how many")
        named = self._named_places(width)
        places: list[int] = []
        for one in wanted:
            if isinstance(one, str) and one not in named:
                raise InvalidInput(
                    f"features names {one!r}, which is no column{did_you_mean(one, [*named])}; "
                    "nothing was spent"
                )
            if not isinstance(one, str | int | np.integer) or isinstance(one, bool):
                raise InvalidInput(
                    f"features names {one!r}: give columns by name, or by place from 0 to "
                    f"{width - 1}; nothing was spent"
                )
            places += named[one] if isinstance(one, str) else [int(one)]
        require_places(places, width)
        return tuple(sorted(places))

    def _named_places(self, width: int) -> dict[str, list[int]]:
        """The places of encoded columns, by their own names and by those that they are made of."""
        if self._declared is None:
            given = getattr(self, "feature_names_in_", [f"x{place}" for place in range(width)])
            return {str(name): [place] for place, name in enumerate(given)}
        frame = Frame(self._declared.schema)
        named = {name: [place] for place, name in enumerate(frame.names)}
        place = 0
        for name, column in self._declared.schema.features.items():
            own = len(column.features(name))
            named[name] = [*range(place, place + own)]
            place += own
        return named

    def _scored_labels(self, labels: np.ndarray) -> np.ndarray:
        return self._targets.scaled(labels)

    def _by_scoring(self, study: Any, value: Any) -> None:
        from unisono.models.line import predicting, ridged

        made = self._regression(study.method.problem.features)
        kept = self._features_kept(study.method.problem.features)
        if self.regularisation is not None:
            estimate = ridged(made, study, value, self.regularisation, self._scaling, kept)
        else:
            estimate = predicting(made, study, value, kept)
        self.coef_, self.intercept_ = estimate[1:], float(estimate[0])
        scale = self._scaling
        middle = self.intercept_ + self.coef_ @ scale.shift
        self._parameters = np.array([[*(self.coef_ * scale.scale), middle]])

    def _prediction(self) -> "Prediction":
        from unisono.models.linear import linear_prediction

        return linear_prediction(
            self._inputs, self._encoded_names, self._scaling, self._parameters, "squares", ()
        )

    def _found_parts(self) -> list[Markup]:
        rows = [["intercept", f"{self.intercept_:.4g}"]]
        pairs = zip(self._encoded_names, self.coef_, strict=True)
        rows += [[str(name), f"{own:.4g}"] for name, own in pairs]
        return [notebook.sentence(FOR_PREDICTION, "note"), notebook.grid(["", "weight"], rows)]

    def _result_kept(self) -> dict[str, Any]:
        weights = dict(zip(self._encoded_names, map(float, self.coef_), strict=True))
        return {"intercept": self.intercept_, "weights": weights}

    def _in_the_ball(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rows, lengths = scale.rows(X)
        return rows, self._targets.scaled(labels) / lengths

    def _weighed(self, points: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
        """Squares of w^½ (θ·x - t): the rows only become shorter."""
        assert self._weights is not None
        roots = np.sqrt(self._weights)
        return points * roots[:, None], targets * roots

    @property
    def _target_unknown(self) -> bool:
        return unknown_bounds(self._target_bounds, "target_bounds")

    def predict(self, X: Any) -> np.ndarray:
        """θ·(u, 1) of every row."""
        check_is_fitted(self)
        X = self._matrix(X)
        return row_product(self._scaling.whole(X), self._parameters[0])


_UNSCORABLE = (
    "algorithm = 'fisher-scoring' needs delta > 0, single records instead of persons, and bounds "
    'of the features, public or private: choose "auto"; nothing was spent'
)

__all__ = ["PrivateRidge"]
