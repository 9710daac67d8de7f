"""Private networks with scikit-learn's manners: dense layers, trained by DP-SGD.

Rows are scaled by public bounds alone (`scaling`): zero stays zero where a range holds it, other
ranges are centred. The row (u, 1) enters the first layer as it is; gradients are clipped, not rows.

What is not given follows a rule of public facts (`schedules`); no record is looked at. The second
half of the iterates is averaged.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from unisono.core.algorithm import Facts
from unisono.core.defaults import BOUNDS_SHARE, RELATION
from unisono.core.events import positive
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.data.scaling import UnitScaling
from unisono.errors import InvalidInput
from unisono.estimators.classifiers import classed
from unisono.estimators.configuration import FitPlan, in_rounds
from unisono.estimators.documentation import PARTIES, documented
from unisono.estimators.foundation import PrivateEstimator, unknown_bounds
from unisono.estimators.records import Records
from unisono.estimators.schedules import (
    AVERAGED,
    BATCH,
    CLASSES,
    ROUNDS,
    SQUARES,
    quiet_rate,
    require_converged,
    schedule,
)
from unisono.estimators.statements import UNBOUNDED_TARGETS, UnboundedFeatures

if TYPE_CHECKING:
    from unisono.models.prediction import Prediction

_PARAMETERS = (
    "hidden : sizes of the layers between rows and scores.",
    'activation : "tanh", "relu", "softplus", "sigmoid" or "identity".',
    'epochs, batch_size, learning_rate : None and "auto" follow the rule of the module. More epochs'
    " do not cost privacy, the noise grows with them.",
    "clip : bound on the norm of one record's gradient.",
    "relation",
    "trust",
    *PARTIES,
    "engine",
)
_FITTED = (
    "parameters_ : weights and biases, layer by layer, for scaled rows (u, 1).",
    "rounds_, learning_rate_ : what was used.",
)


class PrivateNetwork(PrivateEstimator):
    """From rows to trained layers; subclasses know what the outputs mean."""

    _pure = False
    _centred = "away from zero"
    _model = "network"

    hidden: Any
    activation: str
    epochs: float | None
    batch_size: Any
    learning_rate: Any
    clip: float
    engine: str

    def _train(self, records: Records, classes: int) -> None:
        """Sets `parameters_`; `classes` is 0 for regression."""
        layers = (self._features(records) + 1, _sizes(self.hidden), classes, self.activation)

        def planned(facts: Facts, trust: Trust, promise: Privacy) -> FitPlan:
            return self._plan(facts, trust, promise, layers)

        result, plan = self._run(records, planned)
        value, (self.rounds_, self.learning_rate_) = result.value, plan.kept
        require_converged(value.parameters, self.learning_rate_)
        self.parameters_ = value.parameters

    def _plan(self, facts: Facts, trust: Trust, privacy: Privacy, layers: Any) -> FitPlan:
        import jax

        from unisono.algorithms.dp_sgd import DP_SGD
        from unisono.problems.networks import mlp
        from unisono.problems.record_loss import RecordLoss, of_persons
        from unisono.releases.blocked_sum import Clipping

        network = mlp(*layers)
        first = jax.jit(network.init)(jax.random.key(0))
        total = sum(facts.records)
        batch = min(total, BATCH) if self.batch_size == "auto" else self.batch_size
        rounds = ROUNDS if self.epochs is None else None
        rate, rounds = schedule(total, batch, None, self.epochs, rounds)
        clipping, step = Clipping(bound=self.clip), self.learning_rate
        if step == "auto":
            size = sum(leaf.size for leaf in jax.tree.leaves(first))
            length, fastest = CLASSES if network.classes else SQUARES
            quiet = quiet_rate(facts, trust, privacy, rate, rounds, size)
            step = min(length * quiet, fastest) / self.clip
        positive(learning_rate=step)
        one = np.zeros((), np.float32)
        record: tuple[np.ndarray, ...] = (np.zeros(layers[0], np.float32), one)
        loss = network.loss
        if self._weights is not None:
            record, loss = (*record, one), _weighted(network.loss)
        method = DP_SGD.method(
            of_persons(RecordLoss(loss, first, record), facts.group),
            privacy,
            rounds=rounds,
            sampling_rate=rate,
            clipping=clipping,
            learning_rate=float(step),
            average_last=AVERAGED,
        )
        return replace(in_rounds(method, facts, trust, self.engine), kept=(rounds, step))

    def _in_the_ball(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return scale.whole(X), labels

    def _weighed(self, points: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
        assert self._weights is not None
        return points, targets, self._weights

    def _prediction(self) -> "Prediction":
        from unisono.models.network import network_prediction

        classes = tuple(np.asarray(getattr(self, "classes_", ())).tolist())
        return network_prediction(
            self._inputs,
            self._encoded_names,
            self._scaling,
            self.parameters_,
            self.activation,
            classes,
            None if classes else self._targets,
        )

    def _settings_kept(self) -> dict[str, Any]:
        return {"hidden": list(_sizes(self.hidden)), "activation": self.activation}

    def _outputs(self, X: Any) -> np.ndarray:
        """Scores (n, classes) or values (n,), in 64 bits, each row by itself."""
        check_is_fitted(self)
        from unisono.models.network import dense_layers
        from unisono.models.prediction import layer_scores

        rows = self._scaling.whole(self._matrix(X))
        found = layer_scores(dense_layers(self.parameters_), self.activation, rows)
        return found if hasattr(self, "classes_") else found[:, 0]


class PrivateClassifier(ClassifierMixin, PrivateNetwork):
    __doc__ = documented(
        "A differentially private network of dense layers for two or more classes.\n\n"
        "    Gaussian noise on sums of clipped gradients, over secret Poisson batches (DP-SGD).",
        ("bounds", "classes", *_PARAMETERS, "number_of_classes", "class_weight", "largest_weight"),
        (*_FITTED, "classes_ : the labels, sorted."),
    )

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        classes: Any = None,
        hidden: Any = (64,),
        activation: str = "tanh",
        epochs: float | None = None,
        batch_size: Any = "auto",
        learning_rate: Any = "auto",
        clip: float = 1.0,
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
        number_of_classes: int = 2,
        class_weight: Any = None,
        largest_weight: float | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.classes = epsilon, delta, bounds, classes
        self.bounds_share, self.number_of_classes = bounds_share, number_of_classes
        self.columns, self.records_per_person = columns, records_per_person
        self.person_at_parties = person_at_parties
        self.class_weight, self.largest_weight = class_weight, largest_weight
        self.hidden, self.activation, self.epochs = hidden, activation, epochs
        self.batch_size, self.learning_rate, self.clip = batch_size, learning_rate, clip
        self.relation, self.trust, self.records, self.ledger = relation, trust, records, ledger
        self.minimum_parties, self.colluders = minimum_parties, colluders
        self.random_state, self.engine = random_state, engine

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def fit(
        self, X: Any, y: Any, parties: Any = None, persons: Any = None, sample_weight: Any = None
    ) -> Any:
        """Learn from rows X (n, d), labels y (n,), the party and the person of each row (n,), and
        weights (n,), which count before gradients are clipped. Of a frame all of these may be names
        of columns, of a path y, parties and persons may."""
        records = self._read(X, y, parties, persons, numeric=False, weights=sample_weight)
        number = self.number_of_classes
        self._train(*classed(self, records, number, binary=False, signed=lambda _: False))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, k); of two classes the difference (n,), positive for the second."""
        scores = self._outputs(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label of every row."""
        likeliest = self._outputs(X).argmax(axis=1)
        return self.classes_[likeliest]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Scores in [0, 1] (n, k) that add up to 1: they rank records but are not calibrated. Each
        record's gradient is clipped, which makes rare classes rarer. See `evaluate`."""
        return softmax(self._outputs(X), axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))


class PrivateRegressor(RegressorMixin, PrivateNetwork):
    __doc__ = documented(
        "A differentially private network of dense layers for one number.\n\n"
        "    Least squares on targets scaled to [-1, 1], by DP-SGD as in `PrivateClassifier`.",
        ("bounds", "target_bounds", *_PARAMETERS, "largest_weight"),
        _FITTED,
    )

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        target_bounds: Any = None,
        hidden: Any = (64,),
        activation: str = "tanh",
        epochs: float | None = None,
        batch_size: Any = "auto",
        learning_rate: Any = "auto",
        clip: float = 1.0,
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
        largest_weight: float | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.bounds_share, self.columns = bounds_share, columns
        self.records_per_person, self.person_at_parties = records_per_person, person_at_parties
        self.target_bounds, self.largest_weight = target_bounds, largest_weight
        self.hidden, self.activation, self.epochs = hidden, activation, epochs
        self.batch_size, self.learning_rate, self.clip = batch_size, learning_rate, clip
        self.relation, self.trust, self.records, self.ledger = relation, trust, records, ledger
        self.minimum_parties, self.colluders = minimum_parties, colluders
        self.random_state, self.engine = random_state, engine

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(
        self, X: Any, y: Any, parties: Any = None, persons: Any = None, sample_weight: Any = None
    ) -> Any:
        """Learn from rows X (n, d), targets y (n,), the party and the person of each row (n,), and
        weights (n,), which count before gradients are clipped. Of a frame all of these may be names
        of columns, of a path y, parties and persons may."""
        self._train(self._read(X, y, parties, persons, numeric=True, weights=sample_weight), 0)
        if self._target_bounds is None and not self._targets.paid:
            self._tell(UNBOUNDED_TARGETS, UnboundedFeatures)
        return self

    @property
    def _target_unknown(self) -> bool:
        return unknown_bounds(self._target_bounds, "target_bounds")

    def _in_the_ball(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return scale.whole(X), self._targets.scaled(labels)

    def predict(self, X: Any) -> np.ndarray:
        """The expected target of every row, in its units."""
        outputs = self._outputs(X)
        return self._targets.half * outputs + self._targets.centre


def _weighted(loss: Any) -> Any:
    """The loss of a record (row, label, weight): its gradient is clipped with the weight in it."""

    def weighted(parameters: Any, record: Any) -> Any:
        import jax.numpy as jnp

        *own, weight = record
        return jnp.clip(weight, 0.0, 1.0) * loss(parameters, tuple(own))

    return weighted


def _sizes(hidden: Any) -> tuple[int, ...]:
    """`hidden` as a tuple of whole numbers."""
    sizes = np.atleast_1d(np.asarray(hidden, object))
    if not all(isinstance(size, (int, np.integer)) and size >= 1 for size in sizes):
        raise InvalidInput(f"hidden = {hidden!r}: give the sizes of layers, such as (64,)")
    return tuple(int(size) for size in sizes)


__all__ = ["PrivateClassifier", "PrivateRegressor"]
