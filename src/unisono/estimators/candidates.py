"""The candidates of a search: what is tried, what can be, and which of them share a release."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor

from unisono.core.study import Study
from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.estimators.foundation import Quoted

# Networks that are tried where nobody says; set on moons, banana, ring, phoneme and bent planes.
_HIDDEN, _FAST = (32,), 3.0


def usual_candidates(estimator: Any, columns: int, pure: bool = False) -> list[dict[str, Any]]:
    """What is tried where nobody says: the estimator as it is, and what a line cannot do, a network
    of one layer. Of ridge regression also half and a quarter of its columns, which share a release
    with all of them. Networks for classes learn faster than by their own rule, which is made for
    the case that nothing else is tried. For pure epsilon there are no networks."""
    from unisono.estimators.networks import PrivateClassifier, PrivateRegressor
    from unisono.estimators.ridge import PrivateRidge

    found: list[dict[str, Any]] = [{}]
    if isinstance(estimator, PrivateRidge) and estimator.features is None:
        found += [{"features": part} for part in (columns // 2, columns // 4) if part]
    if not pure and not isinstance(estimator, PrivateClassifier | PrivateRegressor):
        kind: Any = PrivateRegressor if is_regressor(estimator) else PrivateClassifier
        more = {"hidden": _HIDDEN} | ({} if is_regressor(estimator) else {"learning_rate": _FAST})
        given = estimator.get_params(deep=False)
        own = {name: given[name] for name in kind().get_params(deep=False) if name in given}
        found += [{"estimator": kind(**own | more)}]
    if len(found) < 2:
        raise InvalidInput(
            f"there is no usual list of candidates for {type(estimator).__name__} here: give "
            "candidates=[{}, {...}]; nothing was spent"
        )
    return found


def is_grid(given: Any) -> bool:
    return isinstance(given, Mapping)


def copied(model: Any, epsilon: float, delta: float, ledger: Any, seed: int | None) -> Any:
    return clone(model).set_params(epsilon=epsilon, delta=delta, ledger=ledger, random_state=seed)


def relation_of(model: Any) -> Relation:
    return Relation(model.relation)


def require_searchable(model: Any, scoring: str) -> None:
    from unisono.estimators.foundation import PrivateEstimator

    name = type(model).__name__
    if not isinstance(model, PrivateEstimator) or not hasattr(model, "predict"):
        raise InvalidInput(f"{name} is no private estimator of Unisono: its fits are not counted")
    if model.ledger is not None:
        raise InvalidInput(
            "a candidate brings its own ledger: give the ledger to the search, which books every "
            "fit and the choice in it; nothing was spent"
        )
    if getattr(model, "columns", None) is not None or model.records_per_person is not None:
        raise InvalidInput(
            f"{name} with columns or persons: a search compares candidates on arrays of numbers, "
            "whose single records are hidden; nothing was spent"
        )
    if getattr(model, "engine", "in-process") != "in-process":
        raise InvalidInput(f"engine = {model.engine!r}: a search runs in this process")
    if isinstance(getattr(model, "target_bounds", None), str):
        raise InvalidInput("target_bounds = 'private': scores need public bounds of the target")
    if not is_regressor(model):
        if model.classes is None or isinstance(model.classes, str):
            raise InvalidInput(
                f"a candidate has classes = {model.classes!r}: pass classes=[...], the public "
                "classes, which are not read from the records; nothing was spent"
            )
        if scoring == "brier" and not hasattr(model, "predict_proba"):
            raise InvalidInput(f"{name} has no probabilities: use scoring='accuracy'")


def groups_of(models: Sequence[Any], quotes: Sequence[Quoted]) -> tuple[tuple[int, ...], ...]:
    """The places of candidates, those together that are functions of one release."""
    known: dict[Any, list[int]] = {}
    for place, (model, quote) in enumerate(zip(models, quotes, strict=True)):
        given = model.get_params(deep=False)
        own = {
            name: told_apart(value)
            for name, value in given.items()
            if name not in model._afterwards
        }
        study, start = quote.plan.study, quote.plan.start
        method = study.method.released
        agreed = Study(method, study.facts, study.trust).hash
        key = (
            type(model),
            tuple(sorted(own.items())),
            agreed,
            None if start is None else start.hash,
            # Ranges that are found on the way are another release, and not kept.
            None if (quote.alone and study.algorithm.rounds == 1) or _same(quote) else place,
        )
        known.setdefault(key, []).append(place)
    return tuple(map(tuple, known.values()))


def told_apart(value: Any) -> str:
    """A parameter, told apart from any other: arrays and columns of frames shorten themselves in
    their own words."""
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} {[told_apart(one) for one in value]}"
    if not hasattr(value, "__array__"):
        return repr(value)
    own = np.asarray(value)
    if own.dtype == object:
        return f"{own.shape} {[told_apart(one) for one in own.ravel().tolist()]}"
    return f"{own.dtype} {own.shape} {own.tobytes().hex()}"


def _same(quote: Quoted) -> bool:
    """Whether the method has nothing that acts afterwards: then equal studies are one study."""
    return quote.alone and not quote.plan.study.method.kind.afterwards


__all__ = [
    "copied",
    "groups_of",
    "is_grid",
    "relation_of",
    "require_searchable",
    "told_apart",
    "usual_candidates",
]
