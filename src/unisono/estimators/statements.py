"""What an estimator tells its user: warnings that can be filtered by class."""

from typing import Any

from unisono.errors import FreshBudgetWarning


class UnboundedFeatures(UserWarning):
    """No public bounds: ranges are released first, for a part of epsilon (`bounds_share`).

    Where there are too few records for that, every row is scaled on its own, and its length is
    lost: rows longer than 1 keep their direction only, so features with large numbers drown the
    others and accuracy suffers; privacy does not. Give `bounds` from public knowledge, never from
    data, and all of epsilon goes to the model.
    """


class RepeatedFits(FreshBudgetWarning):
    """The same estimator, or clones of it, were fitted again without a common ledger.

    Every fit is a release. `GridSearchCV` with c candidates and k folds makes c k + 1 fits: a
    record is in k - 1 of the k folds, so it pays for c (k - 1) + 1 of them, and the scores that
    choose the winner are data too, and not private. Give a `Ledger`, which adds the fits up and
    refuses what the budget cannot bear, or choose with `PrivateSearch`, which pays for the choice.
    """


class DrownedByNoise(UserWarning):
    """Noise drowned the data in some directions, where a posterior falls back to the prior."""


class FewEvents(UserWarning):
    """The rarer of two outcomes has too few records for so many coefficients, by noisy counts."""


class CrowdedTimes(UserWarning):
    """Records leave at few times, as at visits, by noisy counts: medians are intervals of a curve.
    Give the times of visits, where they are public (`visits`)."""


class NotConverged(UserWarning):
    """The rounds of a run disagree by more than their noise, or are too few for so large effects:
    intervals are not to be trusted."""


UNBOUNDED = (
    "no public bounds, and too few records to find private ones: each row is scaled on its own to "
    "the unit ball, so only its direction counts; pass bounds=(lowest, highest) known without "
    "looking at the data for better accuracy"
)
IN_MEMORY = (
    "no ledger: this budget is booked in memory and forgotten with the process, while all releases "
    "from the same records add up; pass ledger=unisono.open_ledger(...) to keep the sum"
)
PREDICTABLE = (
    "a SIMULATION: with a seed the noise is predictable, and whoever knows the seed subtracts it, "
    "so there is no privacy; leave the seed (random_state) out for real records"
)
WITHOUT_LEDGER = (
    "pickled without its ledger, whose secrets are no part of a model: it predicts, and refuses to "
    "fit again until a ledger is given (set_params(ledger=...))"
)
UNBOUNDED_TARGETS = (
    "no public bounds of the targets: they were clipped to [-1, 1]; pass target_bounds=(lowest, "
    "highest) known without looking at the data"
)
UNKNOWN_SPREAD = (
    "no noise_std: the spread of targets about the line was taken as half the width of their "
    "bounds, the largest possible; pass a public noise_std for narrower intervals"
)


def paid_for(features: bool, targets: bool, paid: float, epsilon: float) -> str:
    """What ranges cost that nobody gave."""
    what = " and ".join(["features"] * features + ["targets"] * targets)
    names = ["bounds"] * features + ["target_bounds"] * targets
    return (
        f"no public bounds of the {what}: their ranges were released first "
        f"({', '.join(f'{name}_' for name in names)}), for epsilon {paid:.3g} of {epsilon:g}; pass "
        f"{' and '.join(names)} known without looking at the data, and all of it goes to the model"
    )


def paid_for_classes(classes: list[Any], paid: float, epsilon: float) -> str:
    """What classes cost that nobody listed."""
    return (
        f"no public classes: {classes} were found first, for epsilon {paid:.3g} of {epsilon:g}; "
        "records with other labels taught nothing. Pass classes=[...] known without looking at the "
        "data, and all of it goes to the model"
    )


def classes_not_found(found: list[str], number: int, paid: float) -> str:
    """Fewer classes than there should be, which noisy counts say."""
    named = f"only {found} of {number} classes were found" if found else "no class was found"
    return (
        f"classes = 'private': {named} in the noisy counts of labels, which cost epsilon "
        f"{paid:.3g}; the fit itself was not paid for. Others may be there, in too few records, or "
        "not: pass classes=[...] from public knowledge, or give more of epsilon (bounds_share)"
    )


def too_few_for_classes(records: int, least: float) -> str:
    """Why classes are not looked for."""
    return (
        f"classes = 'private' with {records} records: only a label of {least:,.0f} records or more "
        "would be told from noise here, so two classes would hardly be found; pass classes=[...], "
        "the public list of all labels, or a larger epsilon or bounds_share; nothing was spent"
    )


def no_pure_epsilon(name: str) -> str:
    """Why an estimator refuses delta = 0, and who does not."""
    return (
        f"delta = 0 with {name}: its noise is Gaussian, which has no pure epsilon; choose delta in "
        "(0, 1), or what offers pure epsilon: output-perturbation (PrivateLogisticRegression, "
        "PrivateLinearSVC, PrivateRidge) or one-shot-regression (BayesianLinearRegression); "
        "nothing was spent"
    )


def repeated(fits: int, epsilon: float, delta: float) -> str:
    return (
        f"fit number {fits} of this estimator and its clones without a ledger: if they saw "
        f"the same records, together they cost up to epsilon = {fits * epsilon:g} at delta = "
        f"{fits * delta:g} (each fold and each candidate of a grid search is a release); pass a "
        "Ledger, or use private_search"
    )


__all__ = [
    "IN_MEMORY",
    "PREDICTABLE",
    "UNBOUNDED",
    "UNBOUNDED_TARGETS",
    "UNKNOWN_SPREAD",
    "DrownedByNoise",
    "FewEvents",
    "NotConverged",
    "RepeatedFits",
    "UnboundedFeatures",
    "classes_not_found",
    "no_pure_epsilon",
    "paid_for",
    "paid_for_classes",
    "repeated",
    "too_few_for_classes",
]
