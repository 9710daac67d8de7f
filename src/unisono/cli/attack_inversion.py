"""Gradient inversion of a network study on made-up records: who sees what, and how well it goes.

Each viewer's error stands beside three others: that of the same attack on sums without noise (the
control: if it fails, the attack says nothing), of rows that saw nothing, and of the mean record.
"""

import math
from functools import lru_cache
from typing import Any

from unisono.cli import synthetic
from unisono.cli.synthetic import Progress


def inversion(built: Any, base: Any, quick: bool, seed: int, progress: Progress) -> dict[str, Any]:
    """Rows from a round's sum, by each viewer; or why there is nothing to invert."""
    from unisono.attacks.server_view import MOST_RECORDS
    from unisono.core.trust import Trust

    kind, trust = built.algorithm, built.study.trust
    if not kind.invertible:
        why = f"{kind.name} sends {kind.sends}; no inversion is built for that: see identification"
        return {"applies": False, "why": why}
    if built.study.facts.group > 1:
        why = (
            "gradients of persons are sums over several records, and this search is for one record "
            "each; that says nothing about better ones: see identification"
        )
        return {"applies": False, "why": why}
    # A party's own messages (0), the sum of all parties (None).
    looks: list[int | None] = [None] if trust is Trust.SECURE_SUM else [0]
    if trust is Trust.TRUSTED_SERVER:
        looks.append(None)
    expected = [_known(built, party, 0.0).expected for party in looks]
    if expected[0] > MOST_RECORDS:
        why = (
            f"about {expected[0]} records take part in a sum, and this search is tried up to "
            f"{MOST_RECORDS} only; that says nothing about better ones: see identification"
        )
        return {"applies": False, "why": why}
    runs = [_simulated(built, base, seed, own) for own in (trust, Trust.TRUSTED_SERVER)]
    found = []
    for done, (party, size) in enumerate(zip(looks, expected, strict=True)):
        progress("inverting gradients", done, len(looks))
        if size <= MOST_RECORDS:
            found.append(_inverted(built, base, party, runs, seed, 3 if quick else 24))
    return {"applies": True, "viewers": found}


def _inverted(
    built: Any, base: Any, party: int | None, runs: Any, seed: int, restarts: int
) -> dict[str, Any]:
    """One viewer's error and those beside it; None where no record ever took part."""
    import numpy as np

    from unisono.attacks import server_view
    from unisono.core.trust import ITERATES, SERVER, Trust

    study, alone = built.study, party is not None
    noise = study.algorithm.event(study.facts, study.trust).noise.deviation(1)
    if study.trust is Trust.SECURE_SUM:
        noise *= math.sqrt(study.facts.parties / study.facts.honest)
    if study.trust is Trust.TRUSTED_SERVER and alone:
        noise = 0.0
    real = np.concatenate([own[0] for own in (base[:1] if alone else base)])[:, :-1]
    fresh = synthetic.encoded(built, synthetic.typical(built.file, 200, seed + 20_011))[0][:, :-1]

    def rows(run: Any, viewer: Any, std: float) -> Any:
        known = _known(built, party, std)
        seen = server_view.sights(run.seen_by(viewer), known.grid, party)
        return server_view.inverted(known, seen, seed, restarts)

    own = rows(runs[0], SERVER if alone else ITERATES, noise)
    clean = rows(runs[1], SERVER, 0.0) if noise else own
    count = 1 if own is None else len(own.rows)
    return {
        "viewer": "the server, from one party's sums" if alone else "everyone who sees all sums",
        "records": count,
        "error": own and server_view.error(own.rows, real),
        "without_noise": clean and server_view.error(clean.rows, real),
        "blind": server_view.blind_error(fresh, real, count),
        "mean": server_view.error(np.tile(fresh.mean(axis=0), (count, 1)), real),
    }


def _known(built: Any, party: int | None, std: float) -> Any:
    """What everybody knows of a network study, for one party's sums or those of all."""
    from unisono.attacks.server_view import Known

    own, study = built.file.model_settings, built.study
    facts, classes = study.facts, len(built.file.data.classes)
    low, high = _box(built)
    predict = _predict(facts.features, own.hidden, classes, own.activation)
    sizes = facts.records if party is None else facts.records[party : party + 1]
    grid = study.algorithm.grid(facts, study.trust)
    rate = _sampling_rate(study)
    return Known(predict, low, high, classes, rate, sum(sizes), grid, len(sizes), std)


def _sampling_rate(study: Any) -> float:
    """A record's chance to take part in a round; 1 where nobody is left out."""
    sampler = study.algorithm.event(study.facts, study.trust).sampler
    return float(getattr(sampler, "rate", 1.0))


@lru_cache(maxsize=8)
def _predict(width: int, hidden: tuple[int, ...], classes: int, activation: str) -> Any:
    """One object for each network, as compiled programs are kept by it."""
    from unisono.problems.networks import mlp

    return mlp(width, hidden, classes, activation).predict


def _box(built: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The least and the largest values of features as the network reads them, by public bounds."""
    import numpy as np

    from unisono.data.columns import NumericColumn

    columns = built.file.data.columns
    most = max(2 if isinstance(own, NumericColumn) else len(own.even) for own in columns.values())
    place = np.arange(most)  # every value of a category occurs, and both ends of a number
    values = {
        name: np.where(place == 0, *own.span)
        if isinstance(own, NumericColumn)
        else np.minimum(place, len(own.even) - 1.0)
        for name, own in columns.items()
    }
    rows = synthetic.encoded(built, values)[0][:, :-1]
    return tuple(map(float, rows.min(axis=0))), tuple(map(float, rows.max(axis=0)))


def _simulated(built: Any, base: Any, seed: int, trust: Any) -> Any:
    """The transcript of one seeded run on made-up records, paid from made-up ledgers."""
    from unisono.accounting.accountant import ACCOUNTANT
    from unisono.core.ledger import Ledger
    from unisono.core.policy import Budget, Policy
    from unisono.core.study import Party
    from unisono.core.trust import SERVER, Viewer
    from unisono.core.values import Private
    from unisono.engines import in_process

    privacy, facts, parties = built.file.privacy, built.study.facts, []
    budget, all_of_it = (Budget(most, privacy.delta) for most in (2 * privacy.epsilon, math.inf))
    # Nobody's records: a trusted server may see them, and whoever works with it.
    viewers = [SERVER, *([Viewer.colluders(facts.colluders)] if facts.colluders else [])]
    trusted = tuple((viewer, all_of_it) for viewer in viewers)
    for number, columns in enumerate(base):
        name = f"made-up {number}"
        policy = Policy(name, budget, trusted, privacy.relation, privacy.unit, facts.colluders)
        ledger = Ledger.in_memory(policy, ACCOUNTANT, seed)
        parties.append(Party(name, Private(columns), ledger))
    return in_process.run(built.study.under(trust).begun(None), parties).transcript


def words(found: dict[str, Any]) -> list[str]:
    """The findings in plain words, line by line."""
    if not found["applies"]:
        return [f"  inversion       not applied: {found['why']}"]
    lines = []
    for own in found["viewers"]:
        if own["error"] is None or own["without_noise"] is None:
            lines.append(f"  inversion       {own['viewer']}: no record took part in any round")
            continue
        control = ""
        if own["without_noise"] > min(own["blind"], own["mean"]) / 2:
            control = "; the attack FAILS even without noise, and says nothing about this study"
        lines += [
            f"  inversion       {own['viewer']}: {own['records']} records, error "
            f"{own['error']:.2g}; without noise {own['without_noise']:.2g}{control}",
            f"                  rows that saw nothing {own['blind']:.2g}, the mean record "
            f"{own['mean']:.2g}",
        ]
    return lines
