"""A study in this process, with all parties' files on this machine and a ledger on disk for each.

`prepare` reads and checks everything and spends nothing. `LocalRun.run` pays, learns, tests and
writes the run's folder; killed at any moment, it goes on from there. The names under which ledgers
pay hold the study file's hash, so one edition of a study runs once, whatever the folder. Ledgers
lie beside the records (`studies.data_set`), so what is spent on these counts in every study.

    FOLDER/study.toml                copy: what the run began with
    FOLDER/run.checkpoint            where it stands

The result is saved before its test is paid for: a test that is refused or lost costs no model. The
certificate is written again after it, for training and test together. A simulation (with a seed)
keeps its ledgers in memory and may be repeated at will.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.certificate import Certificate, certify
from unisono.core.costs import added
from unisono.core.events import Composed
from unisono.core.ledger import Ledger
from unisono.core.outlook import Outlook, outlook
from unisono.core.prepaid import lots_of, one_of, prepaid
from unisono.core.study import Party, Study
from unisono.core.trust import FINAL_MODEL, ITERATES, Trust, Viewer
from unisono.core.values import Private
from unisono.deployment.files import folder_for, save_chosen, save_result
from unisono.deployment.job import Progress
from unisono.deployment.parties_here import Ask, agreed_budget, explained, policy_for, refuse
from unisono.deployment.public_test import Test, public_test, read_public_test
from unisono.deployment.record import Budgets, RunLog, model_so_far, write_transcript
from unisono.deployment.run_folder import RunPlace, begin, claimed, require_folder
from unisono.engines import compilation_cache
from unisono.engines.driver import RunOutcome, drive
from unisono.engines.in_process import IDEAL
from unisono.engines.payments import paid_before, paid_training, require_new, run_name
from unisono.errors import BudgetExceeded, PrivacyViolation
from unisono.runs.folder import CHECKPOINT, EVALUATION, PENDING, RESULT, STUDY, checkpoint_of, write
from unisono.studies.build import Built, build
from unisono.studies.clipped_people import warn_of_clipping
from unisono.studies.data_set import (
    DataSet,
    data_set,
    remember,
    require_apart,
    require_only_ledger,
)
from unisono.studies.file import load_study
from unisono.studies.order import found_key, keep_key, new_key, simulated_key
from unisono.studies.policy import require_allowed
from unisono.studies.policy_file import PolicyFile
from unisono.studies.schema import StudyFile
from unisono.studies.search import (
    Choice,
    SearchBuilt,
    Taken,
    each_candidate,
    stage_name,
)
from unisono.studies.stages import (
    BOUNDS,
    FIRST,
    FIT,
    START,
    TESTS,
    Found,
    SplitRecords,
    Stage,
    costs_of,
)
from unisono.studies.streamed import StreamedRecords

Follow = Callable[[Progress], None]


def prepare(place: RunPlace, ask: Ask = refuse) -> "LocalRun":
    """Read and check all files; nothing is written and nothing is spent.

    Where a party has no budget and `place` names none, `ask` is told what the study takes of it."""
    file = load_study(place.study)
    built = build(file)
    simulated = place.seed is not None
    require_folder(place.folder, built.file, simulated)
    require_apart({name: place.data[name] for name in file.names})
    sets = {name: data_set(place.data[name]) for name in file.names}
    for own in sets.values():
        if not simulated and (place.second_ledgers is None or own.policy is not None):
            require_only_ledger(own)
    budget = place.budget
    if not simulated:
        budget = agreed_budget(built, sets, place.second_ledgers, budget, ask)
    policies = {
        name: policy_for(built, own, name, place.second_ledgers, simulated, budget)
        for name, own in sets.items()
    }
    keys = {
        name: new_key() if place.seed is None else simulated_key(place.seed, name)
        for name in file.names
    }
    if not simulated:
        keys = {name: found_key(_order(policies[name], file)) or keys[name] for name in file.names}
    for name, policy in policies.items():
        with explained(policy):
            for one in each_candidate(built):
                require_allowed(policy, one.file, one.study, name, built.costs, simulated)
    # Whoever does not allow the study has not had a record read.
    records = {
        name: built.records(built.table(place.data[name]), name, keys[name]) for name in file.names
    }
    test = read_public_test(built, public_test(file, place.study, place.test), place.data)
    return LocalRun(place, built, sets, records, keys, policies, test)


@dataclass(frozen=True)
class LocalRun:
    """A study that may begin: records are read and encoded, policies allow it."""

    place: RunPlace
    built: Built
    sets: Mapping[str, DataSet]
    records: Mapping[str, SplitRecords | StreamedRecords]
    keys: Mapping[str, bytes]
    policies: Mapping[str, PolicyFile]
    test: Test | None

    @contextmanager
    def opened(self) -> Iterator[Mapping[str, Ledger]]:
        """The folder, held by this process alone, and every party's ledger, able to pay."""
        simulated = self.place.seed is not None
        with claimed(self.place.folder) as folder, ExitStack() as stack:
            # Another process may have finished meanwhile.
            require_folder(folder, self.built.file, simulated)
            names, books = self.built.file.names, dict[str, Ledger]()
            known = [n for n in names if self.policies[n].ledger_path.exists()]
            # Who keeps a book already may refuse; only then are books begun for the others.
            for group in (known, [n for n in names if n not in known]):
                for name in group:
                    books[name] = self._book(name)
                    stack.callback(books[name].close)
                self._require_payable({name: books[name] for name in group})
            books = {name: books[name] for name in names}
            begin(folder)
            shutil.copyfile(self.place.study, folder / STUDY)
            yield books

    def outlooks(self, books: Mapping[str, Ledger]) -> Mapping[str, Outlook]:
        """What the study takes of each party's budget; nothing of a run that was begun, in which
        some of it is paid already, or of a simulation."""
        if self.place.seed is not None or any(
            self._paid(stage, books) for stage in self.built.stages
        ):
            return {}
        costs, file = self.built.costs, self.built.file
        found = {name: outlook(book, costs[file.party(name)]) for name, book in books.items()}
        return {name: own for name, own in found.items() if own is not None}

    def learnt_from(self) -> list[str]:
        """The parties whose ledgers have paid for the training of the model that is judged, before
        anything is paid for judging it."""
        if self.place.seed is not None or self.built.file.model_kind.judges is None:
            return []
        with ExitStack() as stack:
            books = {}
            for name, policy in self.policies.items():
                if policy.ledger_path.exists():
                    books[name] = policy.open_ledger()
                    stack.callback(books[name].close)
            return self._learnt_from(books)

    def run(self, books: Mapping[str, Ledger], follow: Follow) -> dict[str, Any]:
        """Learn, test and write everything down; returns the result."""
        compilation_cache.enable()
        if isinstance(self.built, SearchBuilt) and self.built.at_random:
            self._keep_order(books)
            return self._search_at_random(self.built, books, follow)
        with self._declared(books):
            return self._run(books, follow)

    def _declared(self, books: Mapping[str, Ledger]) -> AbstractContextManager[None]:
        """All stages of the study as one plan, charged before the first. A run whose first stages
        an older version paid for singly goes on so."""
        begun = any(self._paid(stage, books) for stage in self.built.stages)
        if begun and not all(book.has_plan(self._name) for book in books.values()):
            return nullcontext()
        costs = [self.built.costs[self.built.file.party(name)] for name in books]
        return Ledger.declared(list(books.values()), costs, self._name)

    def _run(self, books: Mapping[str, Ledger], follow: Follow) -> dict[str, Any]:
        if isinstance(self.built, SearchBuilt):
            self._keep_order(books)
            return self._search(self.built, books, follow)
        if self.built.bounds is None:
            return self._learn(books, follow, {})
        rounds = self.built.study.algorithm.rounds
        follow(Progress(0, rounds, "bounds: one release over the parties"))
        self._keep_order(books)
        first = self._stage(self.built.stage(BOUNDS), books, {})
        if not first.opened:
            certificate = self._certificate(self.built.study, books)
            shown = save_result(self.place.folder, self.built, None, 0, certificate)
            return RESULT.write(self.place.folder, shown | {"failed": _ALL_LOST})
        found = {BOUNDS: first.value}
        known = replace(self, built=self.built.bounded(found))
        return known._learn(books, follow, found, first.shape)

    def _learn(
        self,
        books: Mapping[str, Ledger],
        follow: Follow,
        found: dict[str, Any],
        bounds: tuple[int, ...] | None = None,
    ) -> dict[str, Any]:
        """Whatever follows once all ranges are known, by what was `found` before."""
        built, folder, study = self.built, self.place.folder, self.built.study
        diary = RunLog(folder, study.algorithm.rounds, dated=self.place.seed is None)
        budgets = Budgets(folder, list(study.cost), books)
        redrawn = self._keep_order(books)

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
        shapes: dict[str, tuple[int, ...]] = {} if bounds is None else {BOUNDS: bounds}
        for stage in built.stages:
            if stage.name in (FIRST, START):
                begun = self._stage(stage, books, found)
                found[stage.name] = begun.value
                shapes[stage.name] = begun.shape
        outcome = self._stage(built.stage(FIT), books, found, watch)
        found[FIT] = outcome.value
        self._write_transcript(outcome, shapes)
        if built.test is not None:
            write(folder / PENDING, b"")
        certificate = self._certificate(study, books)
        shown = save_result(
            folder,
            built,
            outcome.value,
            outcome.opened,
            certificate,
            alone=True,
            learnt_from=self._learnt_from(books),
        )
        if outcome.opened:
            for name, own in self.records.items():
                warn_of_clipping(built, own, name, outcome.value)
        else:
            shown = RESULT.write(folder, shown | {"failed": _ALL_LOST})
        if "failed" not in shown:
            words = self._evaluate(outcome, books, found, redrawn, shapes)
            if built.test is not None:
                budgets.write()
                certificate = self._certificate(study, books)
                shown = save_result(
                    folder, built, outcome.value, outcome.opened, certificate, alone=True
                )
            if words:
                diary.say(words)
                follow(Progress(study.algorithm.rounds, study.algorithm.rounds, words))
        (folder / PENDING).unlink(missing_ok=True)
        for policy in self.policies.values():
            _order(policy, built.file).unlink(missing_ok=True)
        return shown

    def _search(
        self, built: SearchBuilt, books: Mapping[str, Ledger], follow: Follow
    ) -> dict[str, Any]:
        """Learn every candidate, release the scores, and keep the best."""
        folder, number = self.place.folder, len(built.stages)
        diary = RunLog(folder, number, dated=self.place.seed is None)
        budgets = Budgets(folder, list(built.study.cost), books)
        found: dict[str, Any] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        opened: dict[str, int] = {}
        for done, stage in enumerate(built.stages):
            words = f"{stage.name}: {stage.study.algorithm.name}"
            follow(Progress(done, number, words))
            outcome = self._stage(stage, books, found)
            found[stage.name] = outcome.value
            shapes[stage.name], opened[stage.name] = outcome.shape, outcome.opened
            budgets.write()
            diary.step(done + 1, None, answered=built.file.names, score=None, words=words)
        choice, taken = built.outcome(found, opened)
        seen = (shapes[taken.stage], opened[taken.stage])
        return self._chosen(built, books, choice, taken, *seen)

    def _search_at_random(
        self, built: SearchBuilt, books: Mapping[str, Ledger], follow: Follow
    ) -> dict[str, Any]:
        """Pay for as many runs as there can be, make them, and show the best of so many as were
        drawn to count.

        A run of the study that was stopped pays for all of it again, against everyone: nothing can
        show that nobody has seen its result.
        """
        assert built.file.search is not None
        name, most = f"{self._name} search", built.file.search.most
        before = max(_times(book, name) for book in books.values())
        purpose = name if not before else f"{name} again {before}"
        grants = [
            book.authorize(cost, most, purpose, once=True)
            for book, cost in zip(books.values(), built.costs, strict=True)
        ]
        Budgets(self.place.folder, list(built.study.cost), books).write()
        law: Any = built.costs[0][FINAL_MODEL].parts[0][0].noise
        number, lots = law.drawn(lots_of(grants), len(built.candidates))
        best: tuple[float, int, RunOutcome] | None = None
        for index, place in enumerate(lots):
            follow(Progress(index, most, f"run {index + 1} of {most}"))
            pots = {
                party: prepaid(
                    grant.draw(index), one_of(parts, ITERATES), built.run_of(parts, place)
                )
                for party, grant, parts in zip(books, grants, built.parts, strict=True)
            }
            score, outcome = self._one_run(built, place, pots)
            if index < number and (best is None or score > best[0]):
                best = (score, place, outcome)
        assert best is not None
        score, place, outcome = best
        scores = tuple(score if one == place else None for one in range(len(built.candidates)))
        paid = [
            added([cost] * _times(book, name))
            for book, cost in zip(books.values(), built.costs, strict=True)
        ]
        taken = Taken(outcome.value, built.candidates[place].study, stage_name(place))
        seen = (outcome.shape, outcome.opened, paid)
        return self._chosen(built, books, Choice(place, scores), taken, *seen)

    def _one_run(
        self, built: SearchBuilt, place: int, pots: Mapping[str, Ledger]
    ) -> tuple[float, RunOutcome]:
        """One candidate, learnt and judged."""

        def parties(columns: Callable[[Any], Any]) -> list[Party]:
            return [
                Party(name, Private(columns(self.records[name]), name), pot)
                for name, pot in pots.items()
            ]

        found: dict[str, Any] = {}
        for stage in built.stages_of(place):
            own = parties(partial(stage.columns, found=found))
            outcome = drive(stage.begun(found), own)
            found[stage.name] = outcome.value
        value, judged = outcome.value, built.judged
        assert judged is not None
        scored = parties(
            lambda records: (built.score(place, value, records)[:, None].astype(np.float32),)
        )
        [score] = drive(judged, scored).value
        return float(score), outcome

    def _chosen(
        self,
        built: SearchBuilt,
        books: Mapping[str, Ledger],
        choice: Choice | None,
        taken: Taken,
        shape: tuple[int, ...],
        opened: int,
        costs: Sequence[Mapping[Viewer, Composed]] | None = None,
    ) -> dict[str, Any]:
        """Write down the candidate that was taken, with the certificate of the whole search;
        `costs` where more was shown than the study plans for."""
        folder, study = self.place.folder, taken.study
        certificate = certify(
            study,
            books,
            ACCOUNTANT,
            secure_sum=IDEAL if study.trust is Trust.SECURE_SUM else "",
            costs=built.costs if costs is None else costs,
            file=built.file.hash,
        )
        write_transcript(folder, study, shape, taken.value, study.algorithm.rounds)
        shown = save_chosen(folder, built, choice, taken.value, opened, certificate, alone=True)
        if self.test is not None and "failed" not in shown:
            EVALUATION.write(folder, built.judge_taken(choice, taken.value, self.test))
        for policy in self.policies.values():
            _order(policy, built.file).unlink(missing_ok=True)
        return shown

    @property
    def _name(self) -> str:
        """Under which ledgers pay: one for each edition of a study."""
        return run_name(self.built.file.hash)

    def _learnt_from(self, books: Mapping[str, Ledger]) -> list[str]:
        """The parties whose ledgers have paid for the training of the model that is judged: their
        records may be those that it learnt from."""
        judges = self.built.file.model_kind.judges
        if judges is None:
            return []
        file = judges(self.built.file.model_settings)
        return [party for party, book in books.items() if paid_training(book, file)]

    def _keep_order(self, books: Mapping[str, Ledger]) -> bool:
        """Keep the secret orders for whoever goes on; whether an earlier one was lost."""
        if self.place.seed is not None or not self.built.file.draws:
            return False
        paid = paid_before(self._name, list(books.values())).rounds > 0
        places = {name: _order(self.policies[name], self.built.file) for name in books}
        lost = paid and any(found_key(place) is None for place in places.values())
        for name, place in places.items():
            keep_key(place, self.keys[name])
        return lost

    def _stage(
        self,
        stage: Stage,
        books: Mapping[str, Ledger],
        found: Found,
        watch: Callable[[int, Any, str], None] = lambda done, server, words: None,
    ) -> RunOutcome:
        """Run one stage, or go on with it; `found` is what earlier ones released."""
        parties = [
            Party(name, Private(stage.columns(self.records[name], found), name), book)
            for name, book in books.items()
        ]
        checkpoint = None if self.place.seed is not None else self.place.folder / _saved(stage)
        name = f"{self._name}{stage.suffix}"
        return drive(stage.begun(found), parties, name, checkpoint=checkpoint, watch=watch)

    def _write_transcript(
        self,
        outcome: RunOutcome,
        before: Mapping[str, tuple[int, ...]],
        tests: Sequence[tuple[int, ...]] = (),
    ) -> None:
        """`before` are the shapes of what parties sent in the stages before, `tests` after."""
        folder, study = self.place.folder, self.built.study
        rounds, shape = study.algorithm.rounds, outcome.shape
        write_transcript(folder, study, shape, outcome.value, rounds, tests, **before)

    def _evaluate(
        self,
        outcome: RunOutcome,
        books: Mapping[str, Ledger],
        known: Found,
        redrawn: bool,
        before: Mapping[str, tuple[int, ...]],
    ) -> str:
        """How good the result is, by whatever test there is; words about a test that failed."""
        built, folder, words = self.built, self.place.folder, ""
        found = [] if self.test is None else [built.judge(outcome.value, *self.test)]
        if built.test is not None:
            try:
                shapes: list[tuple[int, ...]] = []
                for stage in (one for one in built.stages if one.name in TESTS):
                    tested = self._stage(stage, books, known)
                    known, shapes = {**known, stage.name: tested.value}, [*shapes, tested.shape]
                    if not tested.opened:
                        break
            except (BudgetExceeded, PrivacyViolation) as error:
                words = f"the result was not tested: {error}"
            else:
                if tested.opened:
                    self._write_transcript(outcome, before, shapes)
                    certificate = certify(built.test.study, books, ACCOUNTANT)
                    found.insert(0, built.tested(tested.value, certificate, redrawn))
                else:
                    words = "the test was paid for and lost: left out"
        if found:
            also = {"also": found[1:]} if found[1:] else {}
            EVALUATION.write(folder, found[0] | also)
        return words

    def _certificate(self, study: Study, books: Mapping[str, Ledger]) -> Certificate:
        """What was shown of every party: the training, and the other stages if they were ever paid
        for."""
        begun = [stage for stage in self.built.stages if self._paid(stage, books)]
        costs = costs_of(begun) if len(begun) > 1 else study.costs
        secure_sum = IDEAL if study.trust is Trust.SECURE_SUM else ""
        return certify(
            study, books, ACCOUNTANT, secure_sum=secure_sum, costs=costs, file=self.built.file.hash
        )

    def _paid(self, stage: Stage, books: Mapping[str, Ledger]) -> bool:
        """Whether anything of a stage was ever paid for."""
        before = paid_before(f"{self._name}{stage.suffix}", list(books.values()))
        return before.whole or before.rounds > 0

    # ------------------------------------------------------------- ledgers

    def _book(self, name: str) -> Ledger:
        policy = self.policies[name]
        if self.place.seed is not None:
            seed = self.place.seed
            return Ledger.in_memory(policy.core_policy(), ACCOUNTANT, seed)
        folder_for(policy.ledger_path.parent)
        ledger = policy.open_ledger()
        remember(self.sets[name], policy.ledger_path)
        return ledger

    def _require_payable(self, books: Mapping[str, Ledger]) -> None:
        """Refuse a run that some ledger could not pay to its end, the test included."""
        if any((self.place.folder / _saved(stage)).exists() for stage in self.built.stages):
            return  # what is left of a run that goes on is checked where it is known
        for stage in self.built.stages:
            require_new(f"{self._name}{stage.suffix}", list(books.values()))
        for name, book in books.items():
            if book.has_plan(self._name):
                continue  # a process that was killed has declared all of it
            with explained(self.policies[name]):
                book.check(self.built.costs[self.built.file.party(name)])


def _order(policy: PolicyFile, file: StudyFile) -> Path:
    """Where the secret order of a party's records is kept while the study runs: as private as the
    records, so beside their ledger."""
    return policy.ledger_path.with_suffix(f".{file.hash[:16]}.order")


def _times(book: Ledger, name: str) -> int:
    """How often a ledger has paid for a search of this name."""
    return sum(one.startswith(name) for one in book.purposes())


def _saved(stage: Stage) -> str:
    return CHECKPOINT if stage.name == FIT else checkpoint_of(stage.name)


_ALL_LOST = (
    "every round was paid for and lost when the run was stopped, so nothing was learnt; what was "
    "paid stays spent: agree on the next edition"
)


__all__ = ["LocalRun", "RunPlace", "prepare"]
