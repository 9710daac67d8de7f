"""Table 1 of lecture 13: how the error of the tensor attack grows with m, d, B and each defence.

A server that sees the gradient of the output weights of a two-layer network with m hidden neurons
can recover the batch of B records in d dimensions that made it (Wang, Lee and Lei 2023). The
lecture's Table 1 (after Liu, Wang and Lei 2024) bounds the root mean square error from above:

    no defence          B √(d/m)                           gradient clipping   B √(d/m)
    k local steps       k B √(d/m)                         ℓ2 noise            (B + σ) √(d/m)
    DP-SGD              (B + σ max{1, ‖g‖/s}) √(d/m)       dropout             B √(d/(m p)), p KEPT
    gradient pruning    no bound is given

Every exponent is fitted to logarithms of measured errors (median over records and seeds of
‖x̂ - x‖/‖x‖, before the polish that would make it exact) and compared with the table's: it
*holds* within 0.1 or two standard errors, is *loose* where errors grow more slowly, *violated*
where they grow faster. Where a term dominates is chosen so that its exponent shows: σ large against
B for the noise, ‖g‖ = O(√m) above s for DP-SGD, which cancels the fall in m.

Records are uniform on the sphere, weights N(0, I), σ = selu, residuals +1 or -1, so that no record
is fainter than another. An upper bound on one attack certifies no defence: of all rows DP-SGD alone
has an epsilon, and none at the small noise multipliers used here.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from unisono.attacks.scoring import Slope, fit_slope, judge, match
from unisono.attacks.tensor import ACTIVATIONS, Neurons, array_neurons, attack, gaussian_neurons
from unisono.experiments.findings import ExpectedNumber, Findings

SHAPE = ACTIVATIONS["selu"]


# ------------------------------------------------------------- a batch and its gradient


class RecoveryProblem(NamedTuple):
    """Records (B, d), their residuals (B,), the neurons, and σ(w_j · x_i) as shares (m, B)."""

    rows: np.ndarray
    residuals: np.ndarray
    neurons: Neurons
    shares: np.ndarray

    @property
    def gradient(self) -> np.ndarray:
        """dL/da (m,): Σ_i r_i σ(w_j · x_i)."""
        return self.shares @ self.residuals


def problem(
    m: int, seed: int, d: int = 64, batch: int = 4, network: bool = False, stored: bool = False
) -> RecoveryProblem:
    """A batch and its gradient. `network`: residuals of f(x) = Σ a_j σ(w_j · x), a ~ N(0, 1/m),
    with labels ±1, some of which are nearly 0. `stored`: weights in memory, where they fit."""
    generator = np.random.default_rng([seed, d, batch])
    rows = generator.normal(size=(batch, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    neurons = gaussian_neurons(m, d, seed)
    if stored:
        neurons = array_neurons(weights_of(neurons))
    shares = [SHAPE.value(block.astype(float) @ rows.T) for _, block in neurons.blocks()]
    values = np.concatenate(shares)
    signs = generator.choice((-1.0, 1.0), batch)
    outputs = generator.normal(size=m) / np.sqrt(m)
    return RecoveryProblem(
        rows, 2 * (outputs @ values - signs) if network else signs, neurons, values
    )


def weights_of(neurons: Neurons) -> np.ndarray:
    """All hidden weights (m, d)."""
    return np.concatenate([block for _, block in neurons.blocks()])


def errors(one: RecoveryProblem, gradient: np.ndarray) -> np.ndarray:
    """Relative errors (B,) of the tensor method's moments, without the polish."""
    batch = len(one.rows)
    found = attack(gradient, one.neurons, SHAPE, batch, polished=False, polish_neurons=1000)
    return match(found.rows, one.rows).errors


# ------------------------------------------------------------- what the server sees instead


def noisy(one: RecoveryProblem, std: float, seed: int) -> np.ndarray:
    """ℓ2 noise: N(0, std²) in every coordinate of the gradient."""
    return one.gradient + std * np.random.default_rng([seed, 1]).normal(size=len(one.shares))


def batch_clipped(one: RecoveryProblem, bound: float) -> np.ndarray:
    """The batch's gradient scaled to this length at most."""
    return one.gradient * min(1.0, bound / np.linalg.norm(one.gradient))


def dp_sgd(one: RecoveryProblem, std: float, seed: int, clip: float = 1.0) -> np.ndarray:
    """Each record's gradient clipped to s = `clip`, and Gaussian noise of this deviation."""
    own = one.shares * one.residuals
    norms = np.linalg.norm(own, axis=0)
    clipped = np.sum(own * np.minimum(1.0, clip / norms), axis=1)
    return clipped + std * np.random.default_rng([seed, 2]).normal(size=len(clipped))


def dropout_errors(one: RecoveryProblem, keep: float, seed: int) -> np.ndarray:
    """One public mask for the step: the attacker leaves out the neurons that were silent."""
    kept = np.random.default_rng([seed, 3]).random(len(one.shares)) < keep
    left = one._replace(
        neurons=array_neurons(weights_of(one.neurons)[kept]), shares=one.shares[kept]
    )
    return errors(left, left.gradient)


def local_steps(one: RecoveryProblem, steps: int, seed: int, rate: float = 0.02) -> np.ndarray:
    """The change of a after plain descent on (f - y)²/2 of one batch, by the learning rate, which
    is `rate`/m; W moves too."""
    m = one.neurons.count
    weights = weights_of(one.neurons).astype(float)
    generator = np.random.default_rng([seed, 4])
    start = generator.normal(size=m) / np.sqrt(m)
    labels = start @ one.shares - one.residuals
    pace, output = rate / m, start.copy()
    for _ in range(steps):
        inner = weights @ one.rows.T
        values = SHAPE.value(inner)
        residuals = output @ values - labels
        by_hidden = (output[:, None] * SHAPE.slope(inner) * residuals) @ one.rows
        output, weights = output - pace * (values @ residuals), weights - pace * by_hidden
    return (start - output) / pace


# ------------------------------------------------------------- sweeps


class AxisScale(NamedTuple):
    """Sizes of a run: sweeps over m take `counts`, all others m = `neurons`. Noise stands in `stds`
    for ℓ2 noise and in `private` for DP-SGD; sweeps over something else take the first of each."""

    features: int
    batch: int
    counts: tuple[int, ...]
    neurons: int
    dimensions: tuple[int, ...]
    batches: tuple[int, ...]
    stds: tuple[float, ...]
    private: tuple[float, ...]
    seeds: int
    stored: bool = True


# DP-SGD's noise is in clipping norms; at the usual multiplier of 1 the attack finds nothing.
QUICK = AxisScale(
    features=16,
    batch=3,
    counts=(10_000, 20_000, 40_000, 80_000),
    neurons=40_000,
    dimensions=(8, 16, 32),
    batches=(2, 3, 4, 6),
    stds=(0.8, 1.2, 1.8),
    private=(0.008, 0.012, 0.018),
    seeds=6,
)
FULL = AxisScale(
    features=32,
    batch=4,
    counts=(20_000, 40_000, 80_000, 160_000),
    neurons=60_000,
    dimensions=(16, 32, 64),
    batches=(2, 4, 8),
    stds=(0.8, 1.2, 1.8),
    private=(0.006, 0.009, 0.0135),
    seeds=8,
)
STEPS, KEPT, CLIPS = (1, 4, 16), (0.2, 0.45, 1.0), (0.45, 0.65, 1.0)


class Sweep(NamedTuple):
    """One exponent of the table: errors of the records at a size and a seed; and where the exponent
    is expected, since a bound may be loose."""

    defence: str
    what: str
    predicted: float
    expected: tuple[float, float]
    sizes: tuple[float, ...]
    errors: Callable[[float, int], np.ndarray]


Attacked = Callable[..., np.ndarray]  # (problem, seed, **strength) -> errors


def sweeps(scale: AxisScale) -> Iterator[Sweep]:
    """Every exponent that Table 1 states, row by row."""

    def at(seed: int, m: float = scale.neurons, **options: Any) -> RecoveryProblem:
        given = {"d": scale.features, "batch": scale.batch, "stored": scale.stored} | options
        return problem(int(m), seed, **given)

    def clean(one: RecoveryProblem, seed: int) -> np.ndarray:
        return errors(one, one.gradient)

    def clipped(one: RecoveryProblem, seed: int) -> np.ndarray:
        return errors(one, batch_clipped(one, 1.0))

    def local(one: RecoveryProblem, seed: int, steps: int = 4) -> np.ndarray:
        return errors(one, local_steps(one, steps, seed))

    def with_noise(one: RecoveryProblem, seed: int, std: float = scale.stds[0]) -> np.ndarray:
        return errors(one, noisy(one, std, seed))

    def private(
        one: RecoveryProblem, seed: int, std: float = scale.private[0], clip: float = CLIPS[-1]
    ) -> np.ndarray:
        return errors(one, dp_sgd(one, std, seed, clip))

    def dropped(one: RecoveryProblem, seed: int, keep: float = 0.5) -> np.ndarray:
        return dropout_errors(one, keep, seed)

    def over_m(row: str, shown: Attacked, power: float = -0.5, **options: Any) -> Sweep:
        def found(m: float, seed: int) -> np.ndarray:
            return shown(at(seed, m, **options), seed)

        return Sweep(row, "m", power, (power - 0.16, power + 0.08), scale.counts, found)

    def over_d(row: str, shown: Attacked) -> Sweep:
        def found(d: float, seed: int) -> np.ndarray:
            return shown(at(seed, d=int(d)), seed)

        return Sweep(row, "d", 0.5, (0.25, 0.65), scale.dimensions, found)

    def over_b(row: str, shown: Attacked, expected: tuple[float, float]) -> Sweep:
        def found(batch: float, seed: int) -> np.ndarray:
            return shown(at(seed, batch=int(batch)), seed)

        return Sweep(row, "B", 1.0, expected, scale.batches, found)

    def over(
        row: str,
        what: str,
        power: float,
        expected: tuple[float, float],
        sizes: tuple[float, ...],
        shown: Callable[[RecoveryProblem, int, float], np.ndarray],
    ) -> Sweep:
        def found(size: float, seed: int) -> np.ndarray:
            return shown(at(seed), seed, size)

        return Sweep(row, what, power, expected, sizes, found)

    yield over_m("none", clean)
    yield over_m("none, network's residuals", clean, network=True)
    yield over_d("none", clean)
    yield over_b("none", clean, (0.6, 1.3))
    yield over_m("clipping", clipped)
    yield over_m("local steps", local)
    yield over(
        "local steps",
        "k",
        1.0,
        (-0.1, 0.3),
        STEPS,
        lambda one, seed, k: local(one, seed, int(k)),
    )
    yield over_m("noise", with_noise)
    yield over_d("noise", with_noise)
    yield over("noise", "σ", 1.0, (0.7, 1.25), scale.stds, with_noise)
    yield over_m("DP-SGD", private, 0.0)
    yield over_d("DP-SGD", private)
    yield over("DP-SGD", "σ", 1.0, (0.7, 1.25), scale.private, private)
    yield over(
        "DP-SGD",
        "s",
        -1.0,
        (-1.25, -0.7),
        CLIPS,
        lambda one, seed, clip: private(one, seed, clip=clip),
    )
    yield over_m("dropout", dropped)
    yield over("dropout", "p", -0.5, (-0.65, -0.4), KEPT, dropped)


class Fitted(NamedTuple):
    """A sweep's median errors by size, its exponent, and the verdict on the table."""

    sweep: Sweep
    medians: tuple[float, ...]
    slope: Slope
    verdict: str


def fitted(sweep: Sweep, seeds: int) -> Fitted:
    """Measure and fit one sweep."""
    found = tuple(
        float(np.median([sweep.errors(size, seed) for seed in range(seeds)]))
        for size in sweep.sizes
    )
    slope = fit_slope(sweep.sizes, found)
    return Fitted(sweep, found, slope, judge(slope, sweep.predicted) or "open")


# ------------------------------------------------------------- findings


def run(quick: bool) -> Findings:
    """Quick: d = 16, B = 3, to 80,000 neurons, a minute on a quiet machine. Full: d = 32,
    B = 4, to 160,000 neurons, in about the same time. `benchmarks/tensor_attack.py` goes to a
    million."""
    scale = QUICK if quick else FULL
    found = [fitted(sweep, scale.seeds) for sweep in sweeps(scale)]
    numbers = [_number(one) for one in found]
    numbers.append(
        ExpectedNumber(
            "clipping: largest change of an error, over d and B",
            clipping_changes(scale),
            0,
            1e-3,
            "a batch clip only scales: its exponents in d and B are those of no defence",
        )
    )
    loose = ", ".join(_name(one.sweep) for one in found if one.verdict == "loose") or "none"
    broken = ", ".join(_name(one.sweep) for one in found if one.verdict == "violated") or "none"
    remarks = (
        f"Of {len(found)} exponents {sum(one.verdict == 'holds' for one in found)} hold. "
        f"Loose: {loose}. Violated: {broken}.",
        "Local steps on one batch hardly change the error, where the table allows k times as much: "
        "they scale residuals, which the attack finds anyway. As a defence they are worthless.",
        "Clipping the batch changes nothing at all, since the attack does not use the gradient's "
        "length; noise without a bound on the records has no epsilon, and more neurons undo it.",
        "Only in DP-SGD's row the error does not fall with m: a record's gradient grows as √m, and "
        "the clip takes that away. It is the one row with an epsilon; the noise here, "
        f"{scale.private[0]:g} of a clipping norm, is a hundredth of what is usual, so that there "
        "is an error to measure.",
        "p in √(d/(m p)) is the share that is KEPT: read as the share that is dropped, the bound "
        "would fall as more is dropped, and the error rises. Gradient pruning has no bound in the "
        "table, and none is fitted.",
    )
    return Findings(
        "table_1",
        "Error of the tensor attack: every exponent of Table 1",
        "Lecture 13, Table 1",
        tuple(numbers),
        remarks,
        lambda figure: draw(figure, found),
        (14.0, 7.5),
    )


def clipping_changes(scale: AxisScale) -> float:
    """How much a batch clip moves any error, relative to it, over the d and B of a scale."""
    shapes = [(d, scale.batch) for d in scale.dimensions]
    shapes += [(scale.features, batch) for batch in scale.batches]
    changes = []
    for d, batch in shapes:
        one = problem(scale.counts[0], 0, d, batch, stored=scale.stored)
        plain = errors(one, one.gradient)
        changes.append(np.max(np.abs(errors(one, batch_clipped(one, 1.0)) / plain - 1)))
    return float(max(changes))


def _name(sweep: Sweep) -> str:
    return f"{sweep.defence} in {sweep.what}"


def _number(one: Fitted) -> ExpectedNumber:
    sweep, slope = one.sweep, one.slope
    note = f"table {sweep.predicted:+g}: {one.verdict} (± {slope.uncertainty:.2f})"
    return ExpectedNumber(f"exponent of {_name(sweep)}", slope.exponent, *sweep.expected, note)


_AXES = {
    "m": "hidden neurons m",
    "d": "features d",
    "B": "records in the batch B",
    "k": "local steps k",
    "σ": "noise σ, by the smallest",
    "s": "clipping norm s",
    "p": "share kept p",
}


def draw(figure: Any, found: list[Fitted]) -> None:
    """Errors over every size of the table, and all exponents beside the table's."""
    panels = dict(zip([*_AXES, "all"], figure.subplots(2, 4).ravel(), strict=True))
    rows = list(dict.fromkeys(one.sweep.defence for one in found))
    colours = {row: f"C{index}" for index, row in enumerate(rows)}
    for one in found:
        _draw_errors(panels[one.sweep.what], one, colours[one.sweep.defence])
    heights = [height for height in _HEIGHTS if height <= 2 * max(max(o.medians) for o in found)]
    for what, words in _AXES.items():
        axes = panels[what]
        axes.set(xlabel=words, ylabel="relative error", xscale="log", yscale="log")
        sizes = sorted({size for one in found if one.sweep.what == what for size in _places(one)})
        axes.set_xticks(sizes, [_short(size) for size in sizes])
        axes.set_yticks(heights, [f"{height:g}" for height in heights])
        axes.set_ylim(min(min(one.medians) for one in found) / 1.3, heights[-1])
        axes.minorticks_off()
        axes.set_title(f"in {what}; dashed: the table's slope")
    panels["k"].legend(*panels["m"].get_legend_handles_labels(), fontsize=7, loc="upper left")
    everything = panels["all"]
    for height, one in enumerate(reversed(found)):
        colour = colours[one.sweep.defence]
        everything.errorbar(
            one.slope.exponent, height, xerr=2 * one.slope.uncertainty, fmt="o", color=colour
        )
        everything.plot(one.sweep.predicted, height, "k|", markersize=9)
    everything.set_yticks(range(len(found)), [_name(one.sweep) for one in reversed(found)])
    everything.tick_params(axis="y", labelsize=7)
    everything.set(xlabel="exponent (bars: the table)", title="All, ± 2 standard errors")


_HEIGHTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def _short(size: float) -> str:
    return f"{size / 1000:g}k" if size >= 1000 else f"{size:g}"


def _places(one: Fitted) -> list[float]:
    """Sizes on a common axis: noise is in units of its smallest."""
    unit = one.sweep.sizes[0] if one.sweep.what == "σ" else 1.0
    return [round(size / unit, 6) for size in one.sweep.sizes]


def _draw_errors(axes: Any, one: Fitted, colour: str) -> None:
    places = np.array(_places(one))
    axes.plot(places, one.medians, "o-", color=colour, label=one.sweep.defence)
    middle = math.exp(np.mean(np.log(places))), math.exp(np.mean(np.log(one.medians)))
    slope = middle[1] * (places / middle[0]) ** one.sweep.predicted
    axes.plot(places, slope, "--", color=colour, linewidth=0.8)
