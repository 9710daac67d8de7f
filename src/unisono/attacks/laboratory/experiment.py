"""The whole laboratory: every attack on every defence, a training run through each, two curves.

    found = run(progress=print)        found.laboratory (numbers), found.gallery (pictures' rows)

An attack gets a `Seen` and public things; truths are used for scores alone, here. All randomness
comes from the seed. Sizes are chosen so that everything takes some minutes on two cores.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from unisono.attacks.defences import DpSgd
from unisono.attacks.laboratory import curves, members, reconstruction, tensors, testbed, training
from unisono.attacks.laboratory.cases import CASES, Case
from unisono.attacks.laboratory.results import (
    Baseline,
    LaboratoryResults,
    MembershipScore,
    PrivacyScore,
    Reconstruction,
    Row,
    Tensor,
)
from unisono.attacks.laboratory.testbed import BATCH, Ground
from unisono.attacks.scoring import Score, fit_slope, judge, match, mean_baseline

DELTA = 1e-5
Progress = Callable[[str, int, int], None]
Gallery = Mapping[str, Mapping[str, np.ndarray]]
SETTING = {
    "records": "8 x 8 digits of scikit-learn; five secret ones, 1437 public ones",
    "viewer": "the server, who sees the update of one round, or its secure sum, and knows the "
    "recipe of the defence, the network and the public records",
    "unit": "one record",
    "relation": "add-or-remove",
    "sampler": "epsilon of the round: none, for somebody who knows who took part; epsilon of the "
    "training: Poisson coins that nobody sees",
}


class LaboratoryEffort(NamedTuple):
    """How much of everything."""

    neurons: tuple[int, ...] = (30_000, 60_000, 120_000)
    tensor_seeds: int = 2
    private_batches: int = 5
    trials: int = 60
    runs: int = 300
    private_runs: int = 1000
    rounds: int = 100
    curve_digits: int = 3
    multipliers: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.61, 3.8)
    parties: tuple[int, ...] = (1, 2, 4, 8, 16)


QUICK = LaboratoryEffort(
    neurons=(20_000, 28_000, 40_000),
    tensor_seeds=1,
    private_batches=2,
    trials=20,
    runs=100,
    private_runs=300,
    rounds=40,
    curve_digits=1,
    multipliers=(0.001, 0.01, 0.1, 0.61),
    parties=(1, 2, 4),
)


class LaboratoryOutcome(NamedTuple):
    """Numbers, and the rows behind the pictures: defence -> attack -> (5, 64), "truth" first."""

    laboratory: LaboratoryResults
    gallery: Gallery


def run(
    cases: Sequence[Case] = CASES,
    *,
    seed: int = 0,
    quick: bool = False,
    effort: LaboratoryEffort | None = None,
    progress: Progress | None = None,
) -> LaboratoryOutcome:
    """Attack everything; `progress(words, done, total)` is called after each piece of work."""
    begin = time.monotonic()
    effort = effort or (QUICK if quick else LaboratoryEffort())
    said = progress or (lambda words, done, total: None)
    place, (truth, _) = testbed.images(seed), testbed.secrets()
    rows, gallery = [], {"truth": {"truth": truth}}
    with _one_thread():
        for number, case in enumerate(cases):
            said(case.words, number, len(cases) + 1)
            row, shown = _row(case, effort, seed)
            rows.append(row)
            gallery[case.name] = shown
        said("error by epsilon and by parties", len(cases), len(cases) + 1)
        by_epsilon = curves.by_epsilon(place, effort.multipliers, effort.curve_digits, DELTA, seed)
        by_parties = curves.by_parties(place, effort.parties, effort.curve_digits, seed)
    said("done", len(cases) + 1, len(cases) + 1)
    mean = mean_baseline(place.rows, truth, peak=1.0)
    batches = [testbed.secrets(number)[0] for number in range(effort.private_batches)]
    blind = np.mean([_blind_ratio(place, own, seed) for own in batches])
    found = LaboratoryResults(
        rows=tuple(rows),
        baseline=Baseline(mean.error, float(np.mean(mean.psnr)), float(blind)),
        by_epsilon=by_epsilon,
        by_parties=by_parties,
        single_baseline=float(np.mean(mean.errors[: effort.curve_digits])),
        setting=SETTING,
        quick=quick,
        seed=seed,
        seconds=time.monotonic() - begin,
    )
    return LaboratoryOutcome(found, gallery)


def _row(case: Case, effort: LaboratoryEffort, seed: int) -> tuple[Row, dict[str, np.ndarray]]:
    place = testbed.images(seed)
    private = isinstance(case.make(place, BATCH), DpSgd)
    batches = effort.private_batches if private else 1
    inversion, image, labels_ratio = _inversion(case, place, batches, seed)
    closed, quotients = _closed_form(case, place, seed)
    tensor, directions = _tensor(case, effort, seed)
    found = members.tested(place, case.make(place, BATCH), effort.trials, seed)
    shown = {"inversion": image, "tensor": directions}
    if quotients is not None:
        shown["closed form"] = quotients
    row = Row(
        name=case.name,
        defence=case.words,
        inversion=inversion,
        closed_form=closed,
        tensor=tensor,
        membership=MembershipScore(
            found.adaptive.area, found.adaptive.advantage, found.naive.area, effort.trials
        ),
        labels_ratio=labels_ratio,
        accuracy=training.accuracy(place, case, effort.rounds, seed),
        privacy=_privacy(case, place, effort, seed, private),
    )
    return row, shown


def _inversion(
    case: Case, place: Ground, batches: int, seed: int
) -> tuple[Reconstruction, np.ndarray, float]:
    """Scores over batches, what the first one looks like, and the ratio of class means."""
    scores: dict[bool, list[Score]] = {True: [], False: []}
    means, labels = [], []
    for number in range(batches):
        truth, targets = testbed.secrets(number)
        generator = np.random.default_rng([seed, 1, number])
        seen = case.make(place, BATCH).observe(place.victim(truth, targets), generator)
        for adaptive, own in scores.items():
            guess = reconstruction.inverted(place, seen, BATCH, adaptive)
            own.append(match(guess.rows, truth, peak=1.0))
        records = BATCH * seen.public.get("parties", 1)
        means.append(mean_baseline(place.rows, truth).error)
        labels.append(match(reconstruction.by_labels(place, seen, records).rows, truth).error)
    found = _reconstruction(scores, float(np.mean(means)))
    return found, scores[True][0].matched, float(np.mean(labels) / np.mean(means))


def _closed_form(
    case: Case, place: Ground, seed: int
) -> tuple[Reconstruction | None, np.ndarray | None]:
    """Each secret digit alone in a batch; a batch for each local step would need more than one."""
    if case.fresh:
        return None, None
    truth, targets = testbed.secrets()
    scores: dict[bool, list[Score]] = {True: [], False: []}
    for number in range(BATCH):
        own = slice(number, number + 1)
        generator = np.random.default_rng([seed, 2, number])
        seen = case.make(place, 1).observe(place.victim(truth[own], targets[own]), generator)
        for adaptive, found in scores.items():
            guess = reconstruction.quotient(seen, adaptive)
            found.append(match(guess[None], truth[own], peak=1.0))
    shown = np.concatenate([score.matched for score in scores[True]])
    return _reconstruction(scores, mean_baseline(place.rows, truth).error), shown


def _reconstruction(scores: Mapping[bool, Sequence[Score]], mean: float) -> Reconstruction:
    errors = {kind: float(np.mean([score.error for score in own])) for kind, own in scores.items()}
    psnr = {kind: float(np.mean([s.psnr.mean() for s in own])) for kind, own in scores.items()}
    return Reconstruction(
        errors[True],
        psnr[True],
        errors[True] / mean,
        errors[False],
        psnr[False],
        len(scores[True]),
    )


def _tensor(case: Case, effort: LaboratoryEffort, seed: int) -> tuple[Tensor, np.ndarray]:
    """Errors of moments by neurons, medians over records and networks; the polish at the least.

    The slope is fitted to the networks' own medians, so that its uncertainty is that of networks.
    """
    images, labels = testbed.secrets()
    truth, targets = testbed.stretched(images), testbed.even_or_odd(labels)
    errors, points = [], []
    for neurons in effort.neurons:
        found = []
        # Private updates are large to make, and their errors scatter little.
        private = case.exponent == 0
        for number in range(1 if private else effort.tensor_seeds):
            place = testbed.moments(neurons, seed + number)
            generator = np.random.default_rng([seed, 3, number])
            seen = case.make(place, BATCH).observe(place.victim(truth, targets), generator)
            start = tensors.by_moments(place, seen, BATCH)
            found.append(match(start, truth).errors)
            points.append((neurons, float(np.median(found[-1]))))
            if number == 0 and neurons == effort.neurons[0]:
                best = match(tensors.polished(place, seen, start), truth)
                plainly = best
                if tensors.adapts(seen):
                    naive = tensors.by_moments(place, seen, BATCH, adaptive=False)
                    plainly = match(tensors.polished(place, seen, naive, adaptive=False), truth)
        errors.append(float(np.median(found)))
    slope = fit_slope(*zip(*points, strict=True))
    judged = None if case.exponent is None else judge(slope, case.exponent)
    public = testbed.digits().rows
    typical = np.mean(np.linalg.norm(public - public.mean(axis=0), axis=1))
    shown = public.mean(axis=0) + typical / np.sqrt(truth.shape[1]) * best.matched
    return Tensor(
        effort.neurons,
        tuple(errors),
        slope.exponent,
        None if np.isnan(slope.uncertainty) else slope.uncertainty,
        case.bound,
        case.exponent,
        judged,
        best.error,
        float(np.mean(best.psnr)),
        plainly.error,
    ), np.clip(shown, 0, 1)


def _privacy(
    case: Case, place: Ground, effort: LaboratoryEffort, seed: int, private: bool
) -> PrivacyScore:
    small = testbed.images(seed, 8)
    runs = effort.private_runs if private else effort.runs
    defence = case.make(small, BATCH)
    shown = members.audited(small, defence, DELTA, runs, private, seed)
    return PrivacyScore(
        delta=DELTA,
        epsilon_round=defence.epsilon(DELTA, BATCH, 1),
        epsilon_training=training.epsilon_of_training(place, case, effort.rounds, DELTA),
        empirical_direct=shown.epsilon_direct,
        empirical_model_based=shown.epsilon_model_based,
        ceiling=shown.ceiling,
        confidence=shown.confidence,
        runs=shown.runs,
    )


def _blind_ratio(place: Ground, truth: np.ndarray, seed: int) -> float:
    return (
        reconstruction.blind_error(place, truth, seed=seed) / mean_baseline(place.rows, truth).error
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Linear algebra on one thread: on a busy machine several wait for each other."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        yield
