"""`unisono audit`: is a study's promise true, as far as made-up neighbours can show?"""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from unisono.cli import inputs, synthetic
from unisono.cli.output import echo, write_json
from unisono.cli.synthetic import Progress
from unisono.errors import AuditFailed

PART = "the rounds alone; the release before them is another algorithm, to be audited by itself"


def audit(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file, study.toml.")],
    runs: Annotated[int, typer.Option(help="Runs in each of two worlds, at most.")] = 4000,
    seconds: Annotated[float, typer.Option(help="About how long to run.")] = 60.0,
    confidence: Annotated[
        float, typer.Option(help="One less the chance of a false alarm.")
    ] = 0.999,
    seed: Annotated[int, typer.Option(help="Another seed makes other data and noise.")] = 0,
    json: inputs.JsonOption = False,
) -> None:
    """Try to prove a study's epsilon wrong, by attacking it on made-up data.

    The study is built as its parties build it and run again and again, in two worlds that differ in
    one unit, by the same rounds, clipping and noise as a real run. An attacker who sees every
    opened sum, and works with as many parties as the study allows for, tells the worlds apart as
    well as he can. How well he does bounds epsilon from below. No real data are read and nothing is
    spent.

    Exits with 6 if the bound exceeds the promise. A bound below the promise certifies nothing:
    audits find faults, proofs find their absence.

    \b
    Examples:
      unisono audit study.toml
      unisono audit study.toml --seconds 300 --runs 20000 --json
    """
    with synthetic.bar(json) as progress:
        shown = audited(study, runs, seconds, confidence, seed, progress)
    if json:
        write_json(shown)
    else:
        echo(_text(shown))
    if shown["verdict"] == "refuted":
        raise AuditFailed(
            f"{study} promises epsilon {shown['claim']:g} at delta {shown['delta']:g}, and shows "
            f"at least {shown['bound']:.4g}: look for too little noise, a missing clip or a "
            f"sensitivity stated too small (false-alarm rate {1 - confidence:.2g})"
        )


def audited(
    study: Path, runs: int, seconds: float, confidence: float, seed: int, progress: Progress
) -> dict[str, Any]:
    """Claim, bounds and verdict, as plain JSON."""
    from unisono.accounting.accountant import ACCOUNTANT
    from unisono.attacks.worlds import AuditEffort, attacker, audit_pair, find_pair
    from unisono.core.trust import ITERATES
    from unisono.studies.build import build
    from unisono.studies.file import load_study

    begin = time.monotonic()
    file = load_study(study)
    built, privacy = build(file), file.privacy
    attack = attacker(built.study.begun(None))  # as where an earlier stage was lost
    base = synthetic.parties(built, seed)
    extremes = synthetic.encoded(built, synthetic.extremes(file, seed))
    effort = AuditEffort(runs, seconds, confidence=confidence)
    pair = find_pair(attack, base, extremes, privacy.relation, seed, progress)
    found = audit_pair(attack, pair, privacy.relation, privacy.delta, effort, seed, progress)
    history = built.study.costs[0][ITERATES]
    return {
        "study": built.study.hash,
        "title": file.title,
        "algorithm": built.algorithm.name,
        "unit": str(privacy.unit),
        "relation": str(privacy.relation),
        "trust": str(file.trust.mode),
        "viewer": synthetic.viewer(file),
        "claim": privacy.epsilon,
        "delta": privacy.delta,
        "accounted": ACCOUNTANT.epsilon(history, privacy.relation, privacy.delta),
        "bound": found.epsilon,
        "bound_direct": found.audit.epsilon_direct,
        "bound_model_based": found.epsilon_family,
        "ceiling_direct": found.audit.ceiling,
        "confidence": confidence,
        "runs": found.audit.runs,
        "verdict": "refuted" if found.epsilon > privacy.epsilon else "not refuted",
        "seconds": time.monotonic() - begin,
        **({} if built.start is None else {"part": PART}),
    }


def _text(shown: dict[str, Any]) -> str:
    model = shown["bound_model_based"]
    words = "" if model is None else f", {model:.4g} if only the amount of its noise is in doubt"
    rows = {
        "claim": f"epsilon {shown['claim']:g} at delta {shown['delta']:g}, one {shown['unit']}, "
        f"{shown['relation']}",
        "viewer": shown["viewer"],
        "bound": f"epsilon is at least {shown['bound']:.4g}"
        + ("" if shown["bound"] else ": the attacker did no better than chance"),
        "": f"{shown['bound_direct']:.4g} whatever the mechanism (at most "
        f"{shown['ceiling_direct']:.4g} could show){words}",
        "confidence": f"{shown['confidence']:g}, {shown['runs']} runs in each of two worlds",
        "verdict": shown["verdict"]
        + ("" if shown["verdict"] == "refuted" else ": no fault was found; this certifies nothing"),
        "seconds": f"{shown['seconds']:.1f}",
    }
    if "part" in shown:
        rows["part"] = shown["part"]
    lines = [f"{shown['title']} ({shown['algorithm']}, {shown['trust']})"]
    return "\n".join(lines + [f"  {name:<12}{value}" for name, value in rows.items()])
