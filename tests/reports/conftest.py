"""Run folders: hand-made ones, of which tests change a document, and one real one."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.values import Private
from unisono.core.words import jsonable
from unisono.data import RecordTable
from unisono.engines import in_process
from unisono.runs.folder import SHOWN, TIMELINE_FORMAT, Heading
from unisono.studies.build import build
from unisono.studies.file import parse_study

STUDY = """\
title = "Three hospitals"

[data]
target = "diagnosis"

[data.columns]
radius = { kind = "number", bounds = [5, 30] }
age = { kind = "number", bounds = [0, 120] }
diagnosis = { kind = "category", values = ["benign", "malignant"] }

[[parties]]
name = "north"
records = 40
[[parties]]
name = "south"
records = 50
[[parties]]
name = "west"
records = 40

[privacy]
epsilon = 1
delta = 1e-4

[trust]
mode = "secure-sum"
colluders = 1

[model]
name = "logistic-regression"

[algorithm]
name = "gradient-perturbation"
rounds = 8
"""
NAMES = ("north", "south", "west")
VIEWERS = ("final-model", "iterates", "server", "party", "network", "colluders:1")


def heading(**changes):
    given = {
        "title": "Three hospitals",
        "engine": "in process",
        "state": "finished",
        "started": "2026-11-16T09:00:00+00:00",
        "ended": "2026-11-16T09:01:00+00:00",
        "command": "unisono run study.toml --data records",
    }
    return asdict(Heading(**{**given, **changes}))


def certificate(**changes):
    """As `core.certificate` writes it, with numbers that are easy to find again."""
    given = {
        "format": "unisono-certificate-1",
        "study": "ab" * 32,
        "algorithm": "gradient-perturbation",
        "settings": {},
        "trust": "secure-sum",
        "parties": 3,
        "minimum_parties": 3,
        "colluders": 1,
        "unit": "record",
        "guarantees": [
            {"viewer": viewer, "relation": relation, "epsilon": epsilon, "delta": 1e-4}
            for viewer in VIEWERS
            for relation, epsilon in (("replace-one", 1.0), ("zero-out", 0.4581))
        ],
        "events": {},
        "spending": [],
        "declarations": {"records_per_person": 1, "parties_disjoint": True},
        "entropy": "os",
        "secure_sum": "masks between machines",
        "transport": "",
        "ledger_heads": {name: name * 4 for name in NAMES},
        "versions": {"python": "3.11", "unisono": "0.1.0"},
    }
    return {**given, **changes}


def budget(name, before=0.0, spent=1.0, limit=2.0):
    viewers = {v: {"before": before, "spent": spent, "budget": limit} for v in VIEWERS}
    return {"party": name, "relation": "replace-one", "delta": 1e-4, "viewers": viewers}


RESULT = {
    "rounds_opened": 8,
    "title": "Three hospitals",
    "algorithm": "gradient-perturbation",
    "study": "ab" * 32,
    "file": "cd" * 32,
    "loss": "logistic",
    "target": "diagnosis",
    "positive": "malignant",
    "negative": "benign",
    "note": "the sign decides",
    "intercept": -3.25,
    "weights": {"radius": 0.5, "age": -0.01},
}
DOCUMENTS = {
    "run": heading(),
    "progress": {"rounds": 8, "of": 8, "words": "", "answered": list(NAMES)},
    "budgets": [budget(name, 0.25 * place) for place, name in enumerate(NAMES)],
    "result": RESULT,
    "certificate": certificate(),
    "evaluation": {
        "measure": "share of right predictions",
        "value": 0.93,
        "low": 0.90,
        "high": 0.95,
        "confidence": 0.95,
        "records": 113,
        "how": "public file test.csv",
        "baseline": 0.63,
    },
    "transcript": {
        "messages": [
            {
                "name": "sum",
                "rounds": [0, 7],
                "shape": [3],
                "viewers": ["iterates", "network", "party", "server"],
            },
            {"name": "result", "rounds": [8, 8], "shape": [3], "viewers": ["final-model"]},
        ]
    },
}
TIMELINE = [
    {
        "round": number,
        "time": "2026-11-16T09:00:30+00:00",
        "change": 1 / number,
        "score": None,
        "answered": [name for name in NAMES if (name, number) != ("west", 3)],
    }
    for number in range(1, 9)
]


FORMATS = {one.file.removesuffix(".json"): one.format for one in SHOWN}
FORMATS["timeline"] = TIMELINE_FORMAT


def formatted(name, document):
    """A document, or a line of the timeline, as it lies in a run's folder."""
    if name == "budgets" and isinstance(document, list):
        document = {"parties": document}
    if not isinstance(document, dict):
        return document
    return {"format": FORMATS[name], **jsonable(document)}


def write(folder, documents, study=STUDY, timeline=TIMELINE):
    """A run's folder; a document that is text is written as it is, None leaves it out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        if document is not None:
            text = document if isinstance(document, str) else json.dumps(formatted(name, document))
            (folder / f"{name}.json").write_text(text)
    if study is not None:
        (folder / "study.toml").write_text(study)
    lines = "".join(json.dumps(formatted("timeline", line)) + "\n" for line in timeline)
    (folder / "timeline.jsonl").write_text(lines)
    return folder


@pytest.fixture
def folder(tmp_path):
    """A finished run, with some of its documents changed."""

    def made(study=STUDY, timeline=TIMELINE, **changes):
        return write(tmp_path / "study.run", {**DOCUMENTS, **changes}, study, timeline)

    made.heading, made.certificate, made.budget = heading, certificate, budget
    made.result, made.study = RESULT, STUDY
    return made


@pytest.fixture(scope="session")
def real_run(tmp_path_factory):
    """A study that ran in this process, with real noise; its ledgers were empty before."""
    file = parse_study(STUDY)
    built, privacy = build(file), file.privacy
    parties = []
    for seed, party in enumerate(file.parties):
        generator = np.random.default_rng(seed)
        ill = generator.random(party.records) < 0.5
        columns = {
            "radius": 10 + 8 * ill + generator.normal(size=party.records),
            "age": generator.uniform(0, 100, party.records),
            "diagnosis": np.array(["benign", "malignant"], object)[ill.astype(int)],
        }
        table = RecordTable(f"{party.name}.csv", columns, party.records)
        policy = Policy(party.name, Budget(2.0, privacy.delta), (), privacy.relation, privacy.unit)
        ledger = Ledger.in_memory(policy, ACCOUNTANT)
        parties.append(Party(party.name, Private(built.columns(table, party.name)), ledger))
    found = in_process.run(built.study, parties)
    budgets = [
        {
            "party": one.name,
            "relation": str(privacy.relation),
            "delta": privacy.delta,
            "viewers": {
                str(viewer): {"before": 0.0, "spent": one.ledger.spent(viewer), "budget": 2.0}
                for viewer in one.ledger.viewers
            },
        }
        for one in parties
    ]
    documents = {
        "run": heading(),
        "progress": DOCUMENTS["progress"],
        "budgets": budgets,
        "certificate": found.certificate.to_json(),
        "result": {"rounds_opened": 8, **built.present(found)},
    }
    assert math.isfinite(documents["result"]["intercept"])
    return write(tmp_path_factory.mktemp("real") / "study.run", documents)
