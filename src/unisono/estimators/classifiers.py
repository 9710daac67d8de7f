"""Private linear classifiers: logistic regression (two or more classes) and the Huber SVM."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from unisono.core.defaults import BOUNDS_SHARE, RELATION
from unisono.data import codes, listed
from unisono.data.blocks import row_product
from unisono.data.scaling import UnitScaling
from unisono.errors import InvalidInput
from unisono.estimators.documentation import PARTIES, documented
from unisono.estimators.foundation import PrivateLinear
from unisono.estimators.records import FitRecords, Records
from unisono.estimators.unlisted import unlisted
from unisono.estimators.weights import by_class

ALGORITHM = (
    'algorithm : "auto" or a name of `configuration.ALGORITHMS`.',
    "regularisation : λ of λ/2 ||θ||², added to the average loss; the intercept is regularised "
    "too. None: 0 for noisy gradients; for output and objective perturbation, which need one, the "
    "published rule of the algorithm.",
    "rounds : noisy gradients; more do not cost privacy, the noise grows with them. None: the "
    "algorithm's own number.",
)
COEFFICIENTS = (
    "coef_, intercept_ : of the scores of a row inside the bounds; by preconditioned gradients "
    "those of `decision_function`, else up to the row's own positive factor (see `scaling`). "
    "They are for prediction, without errors or tests: for effects see `PrivateGLM`."
)
_PARAMETERS = (
    "bounds",
    "classes",
    "relation",
    "trust",
    *ALGORITHM,
    *PARTIES,
    "number_of_classes",
    "class_weight",
    "largest_weight",
)
_ATTRIBUTES = (COEFFICIENTS, "classes_ : the labels, sorted.")
_CALIBRATED = "calibrated_ : whether `predict_proba` is calibrated, or ranks records only."


class PrivateLinearClassifier(ClassifierMixin, PrivateLinear):
    """Labels to the numbers of a loss, and scores back to labels."""

    _binary = False

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        classes: Any = None,
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
        number_of_classes: int = 2,
        columns: Any = None,
        records_per_person: int | None = None,
        person_at_parties: int = 1,
        class_weight: Any = None,
        largest_weight: float | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.classes = epsilon, delta, bounds, classes
        self.bounds_share, self.number_of_classes = bounds_share, number_of_classes
        self.columns, self.records_per_person = columns, records_per_person
        self.person_at_parties = person_at_parties
        self.class_weight, self.largest_weight = class_weight, largest_weight
        self.relation, self.trust, self.algorithm = relation, trust, algorithm
        self.regularisation, self.rounds, self.records = regularisation, rounds, records
        self.ledger, self.minimum_parties, self.colluders = ledger, minimum_parties, colluders
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The budget of a fit is meant for thousands of records, not for the checks' fifty.
        tags.classifier_tags.poor_score = True
        return tags

    def _loss(self, classes: int) -> str:
        raise NotImplementedError

    def _signed(self, classes: int) -> bool:
        """Whether the loss wants two classes as -1 and +1."""
        return self._loss(classes) != "multinomial"

    def fit(
        self, X: Any, y: Any, parties: Any = None, persons: Any = None, sample_weight: Any = None
    ) -> Any:
        """Learn from rows X (n, d), labels y (n,), the party and the person of each row (n,), and
        weights (n,), which count before records are bounded. Of a frame all of these may be names
        of columns, of a path y, parties and persons may."""
        records = self._read(X, y, parties, persons, numeric=False, weights=sample_weight)
        number = 2 if self._binary else self.number_of_classes
        records, number = classed(self, records, number, self._binary, self._signed)
        self._parameters = self._learn(records, self._loss(number), number)
        self.coef_, self.intercept_ = self._scaling.coefficients(self._parameters)
        return self

    def _in_the_ball(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._points(scale, X), labels

    def _points(self, scale: UnitScaling, X: np.ndarray) -> np.ndarray:
        """Rows (u, 1) (n, d + 1), of length 1 where the algorithm wants them so."""
        return scale.rows(X)[0] if self._unit_rows else scale.whole(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,), positive for the second of two classes; else (n, k). They are
        intercept_ + coef_·x for x within the bounds, which is clipped to them; by algorithms other
        than preconditioned gradients, that over the length of the scaled row."""
        check_is_fitted(self)
        X = self._matrix(X)
        scores = row_product(self._points(self._scaling, X), self._parameters.T)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label of every row."""
        scores = self.decision_function(X)
        return self.classes_[
            (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        ]


class PrivateLogisticRegression(PrivateLinearClassifier):
    __doc__ = documented(
        "Differentially private logistic regression, binary or multinomial.",
        _PARAMETERS,
        (*_ATTRIBUTES, _CALIBRATED),
    )

    _model = "logistic-regression"

    def _loss(self, classes: int) -> str:
        return "logistic" if classes == 2 else "multinomial"

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, k) of the classes.

        `calibrated_` says whether they are calibrated: by preconditioned gradients, the usual
        algorithm, for two classes, whose last rounds are for that. Otherwise they rank records but
        are not calibrated: a predicted .04 may stand for an observed .06 (see `evaluate`).
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        return softmax(scores, axis=1)

    @property
    def calibrated_(self) -> bool:
        """Whether `predict_proba` is calibrated, or ranks records only."""
        from unisono.models.linear import calibrates

        check_is_fitted(self)
        return calibrates(self._learnt_method)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))


class PrivateLinearSVC(PrivateLinearClassifier):
    __doc__ = documented(
        "Differentially private support vector machine: the hinge loss, rounded at its corner\n"
        "    (Chaudhuri et al. 2011), for two classes.",
        _PARAMETERS,
        _ATTRIBUTES,
    )
    _binary = True
    _model = "linear-svm"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _loss(self, classes: int) -> str:
        return "huber-svm"


def classed(
    estimator: Any, records: Records, number: int, binary: bool, signed: Callable[[int], bool]
) -> tuple[Records, int]:
    """Records with the places of their labels, and how many classes there are. Of private classes
    there are `number`, and labels have no places before they are released. `signed` says of how
    many classes the loss wants -1 and +1."""
    weights = getattr(estimator, "class_weight", None)
    if weights is not None and isinstance(estimator.classes, str):
        raise InvalidInput(
            f"class_weight with classes = {estimator.classes!r}: weights are of classes that are "
            "known; pass classes=[...], their public list; nothing was spent"
        )
    private = unlisted(estimator.classes, records, number, estimator.delta, signed(number))
    estimator._unlisted = private
    if private is not None:
        return records.labelled(np.zeros(len(private.labels)), None), number
    estimator.classes_, index = public_classes(
        estimator, records.y, records.classes, binary, records.given
    )
    number = len(estimator.classes_)
    if weights is not None and isinstance(records, FitRecords):
        records = records.weighed(by_class(weights, estimator.classes_.tolist())[index])
    records = records.labelled(index, estimator.classes_)
    return (records.mapped(_as_signs) if signed(number) else records), number


def _as_signs(places: np.ndarray) -> np.ndarray:
    return 2.0 * places - 1


def public_classes(
    estimator: Any, y: np.ndarray, classes: Any, binary: bool, given: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The labels, sorted, and the position of every y among them; y is what scikit-learn has made
    of the labels that were `given`."""
    if classes is None:
        raise InvalidInput(
            "classes = None: the labels are not read from the records, because a rare one would "
            "give its record away; pass classes=[...], the public list of all labels that may "
            "occur, or classes='private' to find them with a part of epsilon; nothing was spent"
        )
    known = np.unique(np.asarray(classes))
    if len(known) < 2:
        raise InvalidInput(
            f"{type(estimator).__name__} needs two classes or more, got one class only "
            f"({known.tolist()}): there is nothing to tell apart; nothing was spent"
        )
    index = places_of(y, given, known)
    strange = index < 0
    if strange.any():
        raise InvalidInput(
            f"{np.count_nonzero(strange)} labels are not among the public classes "
            f"{known.tolist()}: correct the labels, or agree on more classes; nothing was spent"
        )
    if binary and len(known) > 2:
        kind = type_of_target(y)
        found = f"The type of the target is {kind}, and c" if kind != "binary" else "C"
        raise InvalidInput(
            f"Only binary classification is supported. {found}lasses has {len(known)} labels, "
            f"{known.tolist()}: list the two that may occur, or use PrivateLogisticRegression; "
            "nothing was spent"
        )
    return known, index


def places_of(y: np.ndarray, given: Any, known: np.ndarray) -> np.ndarray:
    """The place of each label among the known ones (n,), -1 for those that are not.

    Labels in a list are read one by one: in an array, which a list is made of here as a whole, a
    single 1.0 makes floats of all whole numbers, and a single "1" makes all of them text.
    """
    if not isinstance(getattr(given, "dtype", None), np.dtype):
        labels = listed(given)
        if not any(np.ndim(label) for label in labels):
            return codes(labels, list(known))
    index = np.searchsorted(known, y).clip(0, len(known) - 1)
    return np.where(known[index] == y, index, -1)


__all__ = [
    "PrivateLinearClassifier",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "places_of",
    "public_classes",
]
