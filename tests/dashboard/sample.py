"""Run folders of every kind, for tests and for looking at: `python tests/dashboard/sample.py OUT`.

The second form, with `--live`, lets one of them advance by a round each second.
"""

import base64
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unisono.runs.folder import SHOWN, TIMELINE_FORMAT

FORMATS = {one.file: one.format for one in SHOWN}
FIVE = ("north", "south", "east", "west", "centre")
HUNDRED = tuple(f"clinic-{number:03d}" for number in range(100))
HOSTILE = '<script>alert("x")</script>'
ROUNDS, DELTA = 20, 1e-5
VIEWERS = ("final-model", "iterates", "server", "party", "network", "colluders:1")
# More than the largest process number of any system: nobody has it.
NOBODY = 2**31 - 1

_STUDY = """\
title = {title}

[data]
target = "diagnosis"

[data.columns]
radius = {{ kind = "number", bounds = [5, 30] }}
diagnosis = {{ kind = "category", values = ["benign", "malignant"] }}
{parties}
[privacy]
epsilon = 2.0
delta = 1e-5

[trust]
mode = "secure-sum"
minimum_parties = 4
colluders = 1

[model]
name = "logistic-regression"

[algorithm]
name = "gradient-perturbation"
rounds = 20
"""


REPORT = (
    "<!doctype html><title>report</title><style>h1 { color: #112233 }</style><h1>Report</h1>"
    "<script>document.title = 'a script ran'</script>"
)


def write(path: Path, document: Any) -> None:
    """Replace a file, as runs do: whoever reads sees the old one or the new one."""
    draft = path.with_name(path.name + ".part")
    if not isinstance(document, str):
        held = {"parties": document} if isinstance(document, list) else document
        document = json.dumps({"format": FORMATS[path.name], **held})
    draft.write_text(document)
    os.replace(draft, path)


class Sample:
    """One run folder, which can advance."""

    def __init__(
        self,
        folder: Path,
        title: str,
        parties: Sequence[str] = FIVE,
        *,
        engine: str = "in process",
        rounds: int = ROUNDS,
        lazy: Sequence[str] = (),
        started: str = "2026-11-16T09:00:00+00:00",
    ) -> None:
        self.folder, self.title, self.parties = folder, title, tuple(parties)
        self.engine, self.rounds, self.started, self.lazy = engine, rounds, started, tuple(lazy)
        self.done = 0
        folder.mkdir(parents=True)
        self.heading("running", process=os.getpid())
        named = "".join(f"\n[[parties]]\nname = {json.dumps(p)}\nrecords = 114\n" for p in parties)
        write(folder / "study.toml", _STUDY.format(title=json.dumps(title), parties=named))

    def heading(self, state: str, **more: Any) -> "Sample":
        write(
            self.folder / "run.json",
            {
                "format": "unisono-run-1",
                "title": self.title,
                "engine": self.engine,
                "state": state,
                "started": self.started,
                "ended": None,
                "party": None,
                "command": "unisono run study.toml --data data",
                "process": None,
                "error": None,
                **more,
            },
        )
        return self

    def advance(self, rounds: int = 1) -> "Sample":
        """Some rounds on; a lazy party misses every third."""
        for _ in range(rounds):
            self.done += 1
            absent = self.lazy if self.done % 3 == 0 else ()
            answered = [name for name in self.parties if name not in absent]
            line = {
                "round": self.done,
                "time": f"2026-11-16T09:{self.done % 60:02d}:00+00:00",
                "answered": answered,
                "change": 0.9 * 0.8**self.done,
                "score": 0.93 - 0.3 * math.exp(-self.done / 4),
            }
            with open(self.folder / "timeline.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({"format": TIMELINE_FORMAT, **line}) + "\n")
        write(
            self.folder / "progress.json",
            {"rounds": self.done, "of": self.rounds, "words": "", "answered": answered},
        )
        write(self.folder / "budgets.json", [self._budget(k) for k in range(len(self.parties))])
        write(self.folder / "transcript.json", self._transcript())
        return self

    def finish(self, report: bool = True) -> "Sample":
        """The rest of the rounds, and all that a run leaves behind."""
        self.advance(max(1, self.rounds - self.done))
        write(self.folder / "certificate.json", certificate(len(self.parties)))
        write(
            self.folder / "result.json",
            {
                "title": self.title,
                "algorithm": "gradient-perturbation",
                "rounds_opened": self.rounds,
                "study": "5d" * 32,
                "file": "7a" * 32,
                "loss": "logistic",
                "target": "diagnosis",
                "positive": "malignant",
                "negative": "benign",
                "intercept": -3.1,
                "weights": {"radius": 0.21, "texture": 0.08, "concavity": 4.2, "symmetry": -0.6},
            },
        )
        write(
            self.folder / "evaluation.json",
            {
                "measure": "share of right predictions",
                "value": 0.93,
                "low": 0.9,
                "high": 0.95,
                "confidence": 0.95,
                "records": 113,
                "how": "public file test.csv",
                "baseline": 0.63,
            },
        )
        if report:
            write(self.folder / "report.html", REPORT)
        return self.heading("finished", ended="2026-11-16T09:31:00+00:00")

    def _budget(self, place: int) -> dict[str, Any]:
        share = math.sqrt(self.done / self.rounds)
        before = 0.4 * (place % 3)
        viewers = {
            viewer: {"before": before, "spent": before + share * epsilon, "budget": 4.0}
            for viewer, epsilon in zip(VIEWERS, (1.6, 1.98, 1.98, 1.98, 1.98, 2.3), strict=True)
        }
        return {
            "party": self.parties[place],
            "relation": "replace-one",
            "delta": DELTA,
            "viewers": viewers,
        }

    def _transcript(self) -> dict[str, Any]:
        last = self.done - 1
        everyone = ["iterates", "server", "party", "network"]
        messages = [
            {
                "name": "masked contribution",
                "rounds": [0, last],
                "shape": [11],
                "viewers": ["server", "network"],
            },
            {"name": "sum", "rounds": [0, last], "shape": [11], "viewers": everyone},
        ]
        if self.done >= self.rounds:
            messages.append(
                {
                    "name": "result",
                    "rounds": [self.done, self.done],
                    "shape": [11],
                    "viewers": [*everyone, "final-model"],
                }
            )
        return {"messages": messages, "viewers": {}}


def certificate(parties: int) -> dict[str, Any]:
    """As `core.certificate` writes it."""
    return {
        "format": "unisono-certificate-1",
        "study": "5d" * 32,
        "algorithm": "gradient-perturbation",
        "settings": {"rounds": ROUNDS, "epsilon": 2.0},
        "trust": "secure-sum",
        "parties": parties,
        "minimum_parties": max(1, parties - 1),
        "colluders": 1,
        "unit": "record",
        "guarantees": [
            {"viewer": viewer, "relation": relation, "epsilon": epsilon, "delta": DELTA}
            for viewer in VIEWERS
            for relation, epsilon in (("replace-one", 1.98), ("zero-out", 0.93))
        ],
        "events": {},
        "spending": [],
        "declarations": {"records_per_person": 1, "parties_disjoint": True},
        "entropy": "os",
        "secure_sum": "ideal functionality inside one process (no network, nobody to hide from)",
        "transport": "",
        "ledger_heads": {"north": "ab" * 32},
        "versions": {"python": "3.11", "unisono": "0.1.0"},
    }


AUDIT = {
    "audit": {
        "study": "5d" * 32,
        "title": "Five hospitals",
        "algorithm": "gradient-perturbation",
        "unit": "record",
        "relation": "replace-one",
        "trust": "secure-sum",
        "viewer": "everyone who sees the sums",
        "claim": 2.0,
        "delta": DELTA,
        "accounted": 1.98,
        "bound": 1.41,
        "bound_direct": 1.2,
        "bound_model_based": 1.41,
        "ceiling_direct": 6.1,
        "confidence": 0.999,
        "runs": 4000,
        "verdict": "not refuted",
        "seconds": 61.0,
    }
}


PICTURE = base64.b64decode(  # one grey point, as PNG
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)


def laboratory() -> dict[str, Any]:
    """As `attacks.laboratory` writes it, with two defences."""
    rows = [
        {
            "name": name,
            "defence": name,
            "labels_ratio": 0.91,
            "accuracy": 0.95 - 0.1 * noise,
            "inversion": {
                "error": 1e-5 + noise,
                "psnr": 50.0,
                "ratio": noise,
                "batches": 3,
                "naive_error": 1e-5 + noise,
                "naive_psnr": 50.0,
            },
            "closed_form": None,
            "tensor": {
                "neurons": [1000, 10000],
                "errors": [0.2, 0.07],
                "slope": -0.49,
                "bound": "B sqrt(d/m)",
                "predicted": -0.5,
                "verdict": "holds",
                "polished": 1e-9 + noise,
                "polished_psnr": 90.0,
                "naive_polished": 0.5,
            },
            "membership": {"area": 0.9, "advantage": 0.7, "naive_area": 0.9, "trials": 100},
            "privacy": {
                "delta": DELTA,
                "epsilon_round": 7.9 if noise else "inf",
                "epsilon_training": 7.9 if noise else "inf",
                "empirical_direct": 3.0,
                "empirical_model_based": 3.5,
                "ceiling": 6.0,
                "confidence": 0.95,
                "runs": 400,
            },
        }
        for name, noise in (("none", 0.0), ("DP-SGD <b>", 1.0))
    ]
    return {
        "laboratory": {
            "format": "unisono-laboratory-1",
            "rows": rows,
            "by_epsilon": [],
            "by_parties": [],
            "baseline": {"error": 0.6, "psnr": 11.0, "blind_ratio": 0.96},
            "single_baseline": 0.6,
            "setting": {
                "records": "digits",
                "viewer": "server",
                "unit": "record",
                "relation": "add-or-remove",
                "sampler": "everyone",
            },
            "quick": True,
            "seed": 0,
            "seconds": 45.0,
        }
    }


def make_all(root: Path) -> dict[str, Sample]:
    """A run of every kind, by name."""
    samples = {
        "finished": Sample(root / "hospitals.run", "Five hospitals", lazy=["west"]).finish(),
        "running": Sample(
            root / "deep" / "er" / "live.run", "Incomes", started="2026-11-10T09:40:00+00:00"
        ).advance(3),
        "crowd": Sample(
            root / "crowd.run",
            "A hundred clinics",
            HUNDRED,
            engine="server",
            lazy=HUNDRED[7:10],
            started="2026-11-15T08:00:00+00:00",
        ).finish(report=False),
        "hostile": Sample(
            root / "hostile.run",
            f"Names {HOSTILE}",
            [f"{HOSTILE}{n}" for n in range(3)],
            lazy=[f"{HOSTILE}1"],
            started="2026-11-14T08:00:00+00:00",
        ).finish(report=False),
        "laboratory": Sample(
            root / "laboratory",
            "Attack laboratory",
            (),
            engine="laboratory",
            started="2026-11-13T08:00:00+00:00",
        ),
    }
    failed = Sample(root / "failed.run", "Drug response", started="2026-11-12T08:00:00+00:00")
    failed.advance(7).heading(
        "failed",
        ended="2026-11-12T08:09:00+00:00",
        error="north refuses: epsilon 2.3 is more than its budget leaves (0.4)",
    )
    stopped = Sample(root / "stopped.run", "Digits", started="2026-11-11T08:00:00+00:00")
    stopped.advance(11).heading("running", process=NOBODY)
    write(samples["finished"].folder / "attacks.json", AUDIT)
    write(samples["laboratory"].folder / "attacks.json", laboratory())
    (samples["laboratory"].folder / "attack-grid.png").write_bytes(PICTURE)
    samples["laboratory"].heading("finished", ended="2026-11-13T08:03:00+00:00")
    return samples | {"failed": failed, "stopped": stopped}


def _main(arguments: Sequence[str]) -> None:
    samples = make_all(Path(arguments[0]))
    running = samples["running"]
    while "--live" in arguments and running.done < running.rounds:
        time.sleep(1)
        running.advance()
    if "--live" in arguments:
        running.finish()


if __name__ == "__main__":
    _main(sys.argv[1:])
