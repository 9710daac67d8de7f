"""A study under attack, on made-up records, by what each viewer's transcript holds."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from unisono.cli import attack_inversion, synthetic
from unisono.cli.synthetic import Progress

_CANDIDATES, _RUNS = 20, 200


def attacked(path: Path, quick: bool, seed: int, progress: Progress) -> dict[str, Any]:
    """What was tried against whom and how it went, as plain JSON."""
    from unisono.attacks.worlds import attacker
    from unisono.studies.build import build
    from unisono.studies.file import load_study

    begin = time.monotonic()
    file = load_study(path)
    built = build(file)
    study = built.study
    attack = attacker(study)
    base = synthetic.parties(built, seed)
    found: dict[str, Any] = {
        "title": file.title,
        "study": study.hash,
        "algorithm": built.algorithm.name,
        "trust": str(file.trust.mode),
        "unit": str(file.privacy.unit),
        "relation": str(file.privacy.relation),
        "epsilon": file.privacy.epsilon,
        "delta": file.privacy.delta,
    }
    found["identification"] = _identification(built, attack, base, quick, seed, progress)
    found["membership"] = _membership(built, attack, base, quick, seed, progress)
    found["inversion"] = attack_inversion.inversion(built, base, quick, seed, progress)
    return found | {"seconds": time.monotonic() - begin}


# ------------------------------------------------------------- attacks


def _identification(
    built: Any, attack: Any, base: Any, quick: bool, seed: int, progress: Progress
) -> list[dict[str, Any]]:
    """Which of K made-up records is the victim's? By each viewer that sees something else."""
    from unisono.attacks.identify import identified, largest_share
    from unisono.core.trust import Relation, Trust

    count, runs = (8, 40) if quick else (_CANDIDATES, _RUNS)
    candidates = synthetic.encoded(built, synthetic.typical(built.file, count, seed + 10_007))
    privacy, trust = built.file.privacy, built.study.trust
    # Two steps of presence make one replacement.
    epsilon = privacy.epsilon * (1 if privacy.relation is Relation.REPLACE_ONE else 2)
    delta = privacy.delta
    if privacy.relation is not Relation.REPLACE_ONE:
        delta *= 1 + math.exp(min(privacy.epsilon, 700.0))
    viewers: dict[str, Any] = {
        synthetic.viewer(built.file): (None, largest_share(epsilon, delta, count))
    }
    if trust is Trust.TRUSTED_SERVER:
        grid = built.study.algorithm.grid(built.study.facts, trust)
        viewers["the trusted server, before it adds noise"] = (_silenced(grid), 1.0)
    found = []
    for viewer, (fault, most) in viewers.items():
        own = identified(attack, base, candidates, runs, seed, progress, fault)
        found.append({"viewer": viewer, **asdict(own), "blind": own.blind, "at_most": most})
    return found


def _silenced(grid: float) -> Callable[[Any], Any]:
    """The same event with as little noise as can be drawn, five steps of the grid: nearly what a
    trusted server sees before it adds its own."""

    def fault(event: Any) -> Any:
        noise = event.noise
        name = "std" if hasattr(noise, "std") else "scale"
        return replace(event, noise=replace(noise, **{name: min(5 * grid, getattr(noise, name))}))

    return fault


def _membership(
    built: Any, attack: Any, base: Any, quick: bool, seed: int, progress: Progress
) -> dict[str, Any]:
    """Two worlds that differ in one unit, told apart by likelihood: an area and a bound."""
    from unisono.attacks.worlds import AuditEffort, audit_pair, find_pair

    privacy = built.file.privacy
    extremes = synthetic.encoded(built, synthetic.extremes(built.file, seed))
    pair = find_pair(attack, base, extremes, privacy.relation, seed, progress)
    effort = AuditEffort(200 if quick else 1000, 20.0 if quick else 60.0, confidence=0.999)
    shown = audit_pair(attack, pair, privacy.relation, privacy.delta, effort, seed, progress)
    return {
        "viewer": synthetic.viewer(built.file),
        "bound": shown.epsilon,
        "bound_direct": shown.audit.epsilon_direct,
        "ceiling_direct": shown.audit.ceiling,
        "confidence": shown.audit.confidence,
        "runs": shown.audit.runs,
    }


# ------------------------------------------------------------- words


def words(found: dict[str, Any]) -> str:
    """The findings in plain words."""
    lines = [
        f"{found['title']} ({found['algorithm']}, {found['trust']})",
        f"  promise         epsilon {found['epsilon']:g} at delta {found['delta']:g}, one "
        f"{found['unit']}, {found['relation']}",
    ]
    for own in found["identification"]:
        lines += [
            f"  identification  {own['viewer']}: names the victim's record among "
            f"{own['candidates']} in {100 * own['right']:.0f} % of {own['runs']} runs",
            f"                  blind {100 * own['blind']:.0f} %, promised at most "
            f"{100 * own['at_most']:.0f} %; error {own['error']:.2f}, of the mean record "
            f"{own['baseline']:.2f}",
        ]
    member = found["membership"]
    lines += [
        f"  membership      {member['viewer']}: tells two worlds apart; epsilon is at least "
        f"{member['bound']:.3g} ({member['runs']} runs in each, confidence "
        f"{member['confidence']:g})",
    ]
    lines += [
        *attack_inversion.words(found["inversion"]),
        f"  seconds         {found['seconds']:.1f}",
        "Made-up records; no real data were read, nothing was spent. An attack that fails "
        "certifies nothing.",
    ]
    return "\n".join(lines)
