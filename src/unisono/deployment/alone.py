"""A study in this process, with all parties' files on this machine and a ledger on disk for each.

`prepare` reads and checks everything and spends nothing. `Alone.run` pays, learns, tests and writes
the run's folder; killed at any moment, it goes on from there. The names under which ledgers pay
hold the study file's hash, so one edition of a study runs once, whatever the folder.

    FOLDER/study.toml                copy: what the run began with
    FOLDER/run.checkpoint            where it stands
    LEDGERS/NAME/policy.toml         made where a party brings none: allows this study once
    LEDGERS/NAME/NAME.ledger         what it has paid for

A simulation (with a seed) keeps its ledgers in memory and may be repeated at will.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.certificate import Certificate, certify
from unisono.core.ledger import Ledger
from unisono.core.study import Party, Result, Study
from unisono.core.transcript import Transcript
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.data import read_table
from unisono.deployment.files import (
    EVALUATION,
    RESULT,
    folder_for,
    save_result,
    write,
    write_json,
)
from unisono.deployment.job import Progress
from unisono.deployment.paid_rounds import Outcome, require_new, run_rounds
from unisono.deployment.parties_here import explained, policy_for
from unisono.deployment.record import Budgets, Diary, model_so_far, write_transcript
from unisono.deployment.run_folder import CHECKPOINT, STUDY, TESTED, claimed, clear, require_folder
from unisono.engines import compilation_cache
from unisono.engines.in_process import IDEAL
from unisono.errors import UnisonoError
from unisono.studies.build import build
from unisono.studies.evaluation import read_private
from unisono.studies.file import load_study
from unisono.studies.plan import Built
from unisono.studies.policy import require_allowed
from unisono.studies.policy_file import PolicyFile
from unisono.studies.table import Values

Follow = Callable[[Progress], None]
Test = tuple[Values, str]  # public records, and what their file is called


@dataclass(frozen=True)
class Place:
    """Which study, whose files, and where everything goes; a seed makes it a simulation."""

    study: Path
    data: Mapping[str, Path]
    folder: Path
    ledgers: Path
    test: Path | None = None
    seed: int | None = None


def prepare(place: Place) -> "Alone":
    """Read and check all files; nothing is written and nothing is spent."""
    file = load_study(place.study)
    built = build(file)
    require_folder(place.folder, built.file, place.seed is not None)
    records = {}
    for name in file.names:
        table = read_table(place.data[name], built.column_names)
        records[name] = built.split(table, name)
    simulated = place.seed is not None
    policies = {
        name: policy_for(built, place.ledgers, place.data, name, simulated) for name in file.names
    }
    for name, policy in policies.items():
        with explained(place.ledgers, policy):
            require_allowed(policy, file, built.study, name, built.costs)
    return Alone(place, built, records, policies, _test(place, built))


@dataclass(frozen=True)
class Alone:
    """A study that may begin: records are read and encoded, policies allow it."""

    place: Place
    built: Built
    records: Mapping[str, tuple[tuple[Any, ...], tuple[Any, ...]]]
    policies: Mapping[str, PolicyFile]
    test: Test | None

    @contextmanager
    def opened(self) -> Iterator[Mapping[str, Ledger]]:
        """The folder, held by this process alone, and every party's ledger, able to pay."""
        simulated = self.place.seed is not None
        with claimed(self.place.folder) as folder, ExitStack() as stack:
            # Another process may have finished meanwhile.
            require_folder(folder, self.built.file, simulated)
            books = {}
            for name in self.built.file.names:
                books[name] = self._book(name)
                stack.callback(books[name].close)
            self._require_payable(books)
            if simulated:
                clear(folder)
            shutil.copyfile(self.place.study, folder / STUDY)
            yield books

    def run(self, books: Mapping[str, Ledger], follow: Follow) -> dict[str, Any]:
        """Learn, test and write everything down; returns the result."""
        compilation_cache.enable()
        built, folder, study = self.built, self.place.folder, self.built.study
        diary = Diary(folder, study.algorithm.rounds)
        budgets = Budgets(folder, list(study.cost), books)

        def watch(done: int, server: Any, words: str) -> None:
            last = done == study.algorithm.rounds
            score = None
            if self.test is not None:
                value = study.algorithm.result(server) if last else model_so_far(study, server)
                score = built.judge(value, *self.test)["value"]
            budgets.write()
            iterate = study.algorithm.ask(server)
            diary.step(done, iterate, answered=built.file.names, score=score, words=words)
            follow(Progress(done, study.algorithm.rounds, words))

        follow(Progress(0, study.algorithm.rounds, "compiling"))
        outcome = self._rounds(study, books, "", 0, watch)
        certificate = _certificate(study, books)
        write_transcript(folder, study, outcome.shape, outcome.value, study.algorithm.rounds)
        if outcome.opened and _presentable(built, outcome, certificate):
            self._evaluate(outcome.value, books, follow)
            budgets.write()
        shown = save_result(folder, built, outcome.value, outcome.opened, certificate)
        if not outcome.opened:
            shown = shown | {"failed": _ALL_LOST}
            write_json(folder / RESULT, shown)
        return shown

    @property
    def _name(self) -> str:
        """Under which ledgers pay: one for each edition of a study."""
        return f"run {self.built.file.hash[:32]}"

    def _rounds(
        self, study: Study, books: Mapping[str, Ledger], suffix: str, part: int,
        watch: Callable[[int, Any, str], None] = lambda done, server, words: None,
        columns: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> Outcome:  # fmt: skip
        own = columns or {name: split[part] for name, split in self.records.items()}
        parties = [Party(n, Private(own[n], n), book) for n, book in books.items()]
        name = f"{self._name}{suffix}"
        place = self.place.folder / (TESTED if suffix else CHECKPOINT)
        checkpoint = None if self.place.seed is not None else place
        return run_rounds(study, parties, name, checkpoint=checkpoint, watch=watch)

    def _evaluate(self, value: Any, books: Mapping[str, Ledger], follow: Follow) -> None:
        """How good the result is, by whatever test there is."""
        built, folder = self.built, self.place.folder
        found = [] if self.test is None else [built.judge(value, *self.test)]
        if built.test is not None and built.parts.score is not None:
            score = built.parts.score
            scores = {n: (score(value, kept)[:, None],) for n, (_, kept) in self.records.items()}
            tested = self._rounds(built.test.study, books, " evaluation", 1, columns=scores)
            if tested.opened:
                certificate = _certificate(built.test.study, books)
                write_json(folder / "evaluation-certificate.json", certificate.to_json())
                write(folder / "evaluation-certificate.txt", f"{certificate.text()}\n".encode())
                result = Result(tested.value, certificate, Transcript())
                found.insert(0, read_private(built.file, built.test, result))
            else:
                rounds = built.study.algorithm.rounds
                follow(Progress(rounds, rounds, "the test was paid for and lost: left out"))
        if found:
            also = {"also": found[1:]} if found[1:] else {}
            write_json(folder / EVALUATION, found[0] | also)

    # ------------------------------------------------------------- ledgers

    def _book(self, name: str) -> Ledger:
        policy = self.policies[name]
        if self.place.seed is not None:
            return Ledger.in_memory(policy.core_policy(), ACCOUNTANT, seed=self.place.seed)
        path = Path(policy.source.path)
        if not path.exists():
            folder_for(path.parent)
            write(path, policy.source.text.encode())
        return policy.open_ledger()

    def _require_payable(self, books: Mapping[str, Ledger]) -> None:
        """Refuse a run that some ledger could not pay to its end, the test included."""
        if (self.place.folder / CHECKPOINT).exists():
            return  # what is left of a run that goes on is checked where it is known
        require_new(self._name, list(books.values()))
        for index, (name, book) in enumerate(books.items()):
            with explained(self.place.ledgers, self.policies[name]):
                book.check(self.built.costs[index])


_ALL_LOST = (
    "every round was paid for and lost when the run was stopped, so nothing was learnt; what was "
    "paid stays spent: agree on the next edition"
)


def _test(place: Place, built: Built) -> Test | None:
    """Public records, checked before anything is spent."""
    asked = built.file.evaluation
    path = place.test
    if path is None and asked is not None and asked.file is not None:
        path = place.study.parent / asked.file
    if path is None:
        return None
    return built.testable(read_table(path, built.column_names)), path.name


def _certificate(study: Study, books: Mapping[str, Ledger]) -> Certificate:
    secure_sum = IDEAL if study.trust is Trust.SECURE_SUM else ""
    return certify(study, books, ACCOUNTANT, secure_sum=secure_sum)


def _presentable(built: Built, outcome: Outcome, certificate: Certificate) -> bool:
    """Whether there is a result to test: training may have diverged."""
    try:
        built.present(Result(outcome.value, certificate, Transcript()))
    except (UnisonoError, ArithmeticError, ValueError):
        return False
    return True


__all__ = ["Alone", "Place", "prepare"]
