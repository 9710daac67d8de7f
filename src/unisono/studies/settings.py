"""What `[algorithm]` may say: one small table per algorithm, with its own settings and defaults.

Settings that follow a published rule of public facts where they are left out say so with None.
A new algorithm is a class here, a place in `Settings`, and a builder in `build.BUILDERS`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat

from unisono.core.defaults import RIDGE
from unisono.core.trust import Unit
from unisono.studies.questions import AnyQuestion
from unisono.studies.source import Section

Fraction = Annotated[float, Field(gt=0, le=1)]
Part = Annotated[float, Field(ge=0, le=1)]
# Rounds, layers and the like become arrays: a file that asks for more is a slip, or hostile.
Count = Annotated[int, Field(gt=0, le=1_000_000)]
Target = Literal["none", "classes", "two classes", "number", "either"]
_TARGETS: dict[str, Target] = {
    "logistic": "classes", "huber-svm": "two classes", "squares": "number"
}  # fmt: skip


class Learner(Section):
    """What every algorithm says of itself: whom it hides, and what its target must be.

    "either": a category makes a classifier, a number a regression.
    """

    unit: ClassVar[Unit] = Unit.RECORD

    @property
    def target(self) -> Target:
        return "none"


# ------------------------------------------------------------- statistics


class Statistics(Learner):
    """All questions are answered by one release."""

    name: Literal["statistics"]
    questions: tuple[AnyQuestion, ...] = Field(min_length=1)
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95


class KMeans(Learner):
    """Clusters of the number columns, by noisy sums and counts in every round."""

    name: Literal["k-means"]
    clusters: Count
    rounds: Count = 8


# ------------------------------------------------------------- linear models


class Linear(Learner):
    """`logistic` takes two classes or more, `huber-svm` two, `squares` a number."""

    loss: Literal["logistic", "huber-svm", "squares"] = "logistic"

    @property
    def target(self) -> Target:
        return _TARGETS[self.loss]


class GradientPerturbation(Linear):
    """Noisy full gradients; the learning rate follows `algorithms.choose` unless given."""

    name: Literal["gradient-perturbation"]
    rounds: Count = 200
    regularisation: NonNegativeFloat = RIDGE
    learning_rate: PositiveFloat | None = None


class DpSgdConvex(Linear):
    """Noisy gradients of secret Poisson batches."""

    name: Literal["dp-sgd-convex"]
    rounds: Count = 200
    rate: Fraction = 0.1
    regularisation: NonNegativeFloat = RIDGE
    learning_rate: PositiveFloat | None = None


class OutputPerturbation(Linear):
    """One noisy average of local minimisers; delta = 0 gives pure epsilon."""

    name: Literal["output-perturbation"]
    regularisation: PositiveFloat | None = None


class SgdSynchronous(Linear):
    """Projected noisy gradients of source 004."""

    name: Literal["sgd-synchronous"]
    rounds: Count = 100
    lipschitz: PositiveFloat = 1.0
    radius: PositiveFloat = 5.0
    strong_convexity: NonNegativeFloat = 0.0


# ------------------------------------------------------------- networks


class Layered(Learner):
    """Dense layers: a category as target makes a classifier, a number a regression."""

    hidden: Annotated[tuple[Count, ...], Field(max_length=32)] = (64,)
    activation: Literal["tanh", "relu", "softplus", "sigmoid", "identity"] = "tanh"
    clip: PositiveFloat = 1.0
    learning_rate: PositiveFloat | None = None
    averaged: Part = 0.5

    @property
    def target(self) -> Target:
        return "either"


class DpSgd(Layered):
    """Secret Poisson batches: a record takes part in a round with probability `rate`."""

    name: Literal["dp-sgd"]
    rounds: Count = 150
    rate: Fraction = 0.1


class LocalDpSgd(Layered):
    """Noisy steps at home, averaged models; trust local."""

    name: Literal["local-dp-sgd"]
    rounds: Count = 20
    steps: Count = 10
    rate: Fraction = 0.1


class DpFtrl(Layered):
    """Nothing is sampled: a record has its turn every `separation` rounds; correlated noise."""

    name: Literal["dp-ftrl"]
    rounds: Count = 150
    separation: Count = 10
    bands: Count | None = None


class FedAvg(Layered):
    """Hides whole parties; `clip` bounds the change of a model, `rate` is a party's chance.

    With `follow_median` the bound moves with the median of the changes.
    """

    unit: ClassVar[Unit] = Unit.PARTY
    name: Literal["fed-avg"]
    rounds: Count = 100
    rate: Fraction = 1.0
    epochs: Count = 1
    batch_size: Count = 32
    follow_median: bool = True
    averaged: Part = 0.0


# ------------------------------------------------------------- posteriors


class OneShotRegression(Learner):
    """A posterior from one noisy release of Σ xxᵀ and Σ xy; `noise_std` in the target's units
    (None: half of its range), `prior_variance` in scaled units."""

    name: Literal["one-shot-regression"]
    noise_std: PositiveFloat | None = None
    prior_variance: PositiveFloat = 9.0
    clip: PositiveFloat | None = None

    @property
    def target(self) -> Target:
        return "number"


class TwoClasses(Learner):
    """A posterior for two classes; the prior is N(0, prior_variance) in scaled units."""

    link: Literal["logistic", "probit"] = "logistic"
    prior_variance: PositiveFloat = 1.0

    @property
    def target(self) -> Target:
        return "two classes"


class PviNaturalGradient(TwoClasses):
    """Noisy Newton steps with a full covariance; the posterior knows of the noise. The clip follows
    `pvi_natural_gradient.for_intervals` unless given."""

    name: Literal["pvi-natural-gradient"]
    rounds: Count = 12
    prior_variance: PositiveFloat = 100.0
    clip: PositiveFloat | None = None


class PviDpSga(TwoClasses):
    """Noisy steps at home; trust local. The posterior does not know of the noise: no intervals."""

    name: Literal["pvi-dp-sga"]
    clip: PositiveFloat = 1.0
    rounds: Count = 10
    steps: Count = 20
    rate: Fraction = 0.1
    learning_rate: PositiveFloat = 0.1
    variance_rate: PositiveFloat = 0.01


class PviClippedUpdates(TwoClasses):
    """Clipped changes of factors: hides whole parties. The posterior does not know of the noise: no
    intervals."""

    unit: ClassVar[Unit] = Unit.PARTY
    name: Literal["pvi-clipped-updates"]
    clip: PositiveFloat = 1.0
    covariance: Literal["diagonal", "full"] = "diagonal"
    rounds: Count = 10
    damping: Fraction = 0.5


Settings = Annotated[
    Statistics | KMeans | GradientPerturbation | DpSgdConvex | OutputPerturbation | SgdSynchronous
    | DpSgd | LocalDpSgd | DpFtrl | FedAvg
    | OneShotRegression | PviNaturalGradient | PviDpSga | PviClippedUpdates,
    Field(discriminator="name"),
]  # fmt: skip
