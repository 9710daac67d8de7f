"""Laplace noise on a network's gradients drowns most of them; clipping and Gaussian noise do not.

Lecture 13 (section 4.3) adds Laplace noise to the summed gradient of a two-layer network with m
hidden units on d features, p = m (d + 1) numbers, of which one record moves Δ1 in the L1 norm when
it is replaced; no sampling, and anyone may see the result:

    Laplace, scale b = Δ1/ε             sqrt(2) b in each coordinate, about sqrt(2 p) b in length
      as printed, Δ1 = m sqrt(d)        sqrt(2) m^1.5 d/ε in length, not d sqrt(m)/ε²
    clip to S, Gaussian σ = 2 S/μ*      σ in each coordinate, about σ sqrt(p) in length     (ε, δ)

Δ1 must hold for the worst record, not for a typical one: the bound from public weights
and the pair of records found by climbing are in `two_layer`. Training takes T steps at (ε, δ) in
all, each on a secret Poisson sample of rate q, with noise from the library's accountant:

    θ <- θ - η (Σ over the sample of g_i + noise) / (q n)

    Laplace            g_i as it is, scale c Δ1(θ)/2 from the weights of that step
    clip, Laplace      ||g_i|| <= S, scale c sqrt(p) S
    clip, Gaussian     ||g_i|| <= S, deviation σ S: DP-SGD

Every method gets the best of many rates η, as if trying were free.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.accounting import gaussian as exact
from unisono.core.events import Gaussian, Laplace, Poisson, bounded_sum
from unisono.core.trust import Relation
from unisono.experiments import two_layer
from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.experiments.two_layer import Weights
from unisono.mechanisms import gaussian, laplace

EPSILON, DELTA, CLIP, RECORDS, OTHER = 1.0, 1e-6, 1.0, 10_000, 40
SIZES, KINDS = (10, 20, 40, 80, 160, 320, 640), ("relu", "tanh")
# Training: records, features, hidden units, sampling rate, steps, clip.
PEOPLE, FEATURES, UNITS, RATE, STEPS, SHORT = 2000, 5, 80, 0.1, 150, 0.5
NARROW = 20
METHODS = ("no noise", "clip, Gaussian", "clip, Laplace", "Laplace")
LEARNING_RATES = np.geomspace(1e-5, 2, 12)


def run(quick: bool) -> Findings:
    """Sensitivity by m and d, the noise it needs, and what training makes of it."""
    sizes = (10, 40, 160) if quick else SIZES
    pairs = [*((m, OTHER) for m in sizes), *((OTHER, d) for d in sizes)]
    table = {(*pair, kind): _moves(*pair, kind, quick) for pair in pairs for kind in KINDS}
    ratios = {
        noise: [_noise_to_signal(noise, m) for m in sizes] for noise in ("Laplace", "Gaussian")
    }
    curves = {name: _best_curve(name, UNITS, quick) for name in METHODS}
    narrow = float(_best_curve("Laplace", NARROW, quick)[-1])
    left = {name: float(curve[-1]) for name, curve in curves.items()}
    worst = table[OTHER, sizes[-1], "relu"]
    order = [table[m, d, "relu"]["found 1"] / (math.sqrt(m) + math.sqrt(d)) ** 2 for m, d in pairs]
    drawn, middle = _drawn_length(OTHER, OTHER), sizes.index(OTHER)
    coordinate = math.sqrt(2) * table[OTHER, OTHER, "tanh"]["bound 1"] / EPSILON
    numbers = (
        ExpectedNumber("found / bound of Δ1, most", _share(table, 1), 0.25, 1.0, "all networks"),
        ExpectedNumber("found / bound of Δ2, most", _share(table, 2), 0.25, 1.0, "all networks"),
        ExpectedNumber(
            "relu: found Δ1 / (√m + √d)², least", min(order), 1.3, 2.6, "so of order m + d"
        ),
        ExpectedNumber("relu: found Δ1 / (√m + √d)², most", max(order), 1.3, 2.6),
        ExpectedNumber(
            "relu: worst pair / 200 typical ones",
            worst["found 1"] / worst["typical"],
            3.0,
            20.0,
            f"m = {OTHER}, d = {sizes[-1]}",
        ),
        ExpectedNumber(
            "length drawn / (√2 m^1.5 d/ε)",
            drawn / (math.sqrt(2) * OTHER**2.5 / EPSILON),
            0.98,
            1.04,
            "Δ1 = m√d, as printed",
        ),
        ExpectedNumber(
            "length drawn / (d√m/ε²)",
            drawn / (OTHER**1.5 / EPSILON**2),
            54.0,
            60.0,
            "as printed; √2 m ε is expected",
        ),
        ExpectedNumber("Laplace noise, one coordinate", coordinate, 1200, 1600, f"m = d = {OTHER}"),
        ExpectedNumber(
            "Laplace noise / gradient, lengths",
            ratios["Laplace"][middle],
            4.0,
            12.0,
            f"{RECORDS} records, m = d = {OTHER}",
        ),
        ExpectedNumber(
            "Gaussian noise / clipped gradient",
            ratios["Gaussian"][middle],
            0.1,
            0.5,
            f"clip {CLIP:g}, delta {DELTA:g}",
        ),
        ExpectedNumber("error left: no noise", left["no noise"], 0.18, 0.3, "1 is always the mean"),
        ExpectedNumber("error left: clip, Gaussian", left["clip, Gaussian"], 0.2, 0.32, "DP-SGD"),
        ExpectedNumber("error left: clip, Laplace", left["clip, Laplace"], 0.3, 0.85),
        ExpectedNumber("error left: Laplace", left["Laplace"], 0.65, 1.0, f"m = {UNITS}"),
        ExpectedNumber("error left: Laplace, few units", narrow, 0.45, 0.85, f"m = {NARROW}"),
    )
    remarks = (
        "The lecture bounds a typical record. One that lies along the weights moves the gradient "
        "many times as far, and the more so the more features there are.",
        "The bound from public weights holds for every pair of records and is at least twice what "
        "climbing found; tanh saturates, so there it is looser, the more so the more features.",
        f"Training has {PEOPLE} records, m = {UNITS}, d = {FEATURES}, {STEPS} steps at sampling "
        f"rate {RATE:g}; every method is (epsilon {EPSILON:g}, delta {DELTA:g}) for whoever sees "
        "all models, one record replaced. Laplace noise of an honest scale drowns most of the "
        "gradient: a rate that could learn makes the weights grow, then their bound and the noise, "
        "and training diverges. Fewer hidden units need less noise and learn more.",
        "Clipping helps, and so does the Gaussian: Laplace noise on clipped gradients pays √p for "
        "an L1 bound where Gaussian noise needs L2 only.",
    )

    def draw(figure: Any) -> None:
        _draw(figure, sizes, table, ratios, curves)

    return Findings(
        "laplace-gradients",
        "Laplace noise on gradients, or clipping?",
        "Lecture 13, section 4.3 corrected",
        numbers,
        remarks,
        draw,
        (10.0, 7.5),
    )


def _share(table: dict[Any, dict[str, float]], norm: int) -> float:
    return max(row[f"found {norm}"] / row[f"bound {norm}"] for row in table.values())


def _moves(units: int, features: int, kind: str, quick: bool) -> dict[str, float]:
    """Δ1 and Δ2 of the published model: bounded and found by climbing; Δ1 of typical pairs."""
    weights = two_layer.as_published(units, features, kind)
    effort = (8, 60) if quick else (16, 100)
    moves = {f"bound {norm}": bound for norm, bound in enumerate(two_layer.bounds(weights), 1)}
    moves |= {f"found {norm}": two_layer.largest_move(weights, norm, *effort) for norm in (1, 2)}
    rows, labels = (
        part.reshape(2, 20, 10, *part.shape[1:])
        for part in two_layer.teacher_records(400, features)
    )
    typical = []
    for lot in range(20):
        one, other = ((rows[side, lot], labels[side, lot]) for side in (0, 1))
        typical.append(two_layer.distances(weights, one, other, 1)[0])
    return moves | {"typical": float(np.max(typical))}


# ------------------------------------------------------------- one release


def _noise_to_signal(noise: str, units: int) -> float:
    """Length of the noise over that of the summed gradient of all records which it hides."""
    weights = two_layer.as_published(units, OTHER, "tanh")
    strength, clip = 2 * CLIP / exact.mu_for(EPSILON, DELTA), CLIP
    if noise == "Laplace":
        strength, clip = math.sqrt(2) * two_layer.bounds(weights)[0] / EPSILON, math.inf
    sums = two_layer.clipped_sum(weights, *two_layer.teacher_records(RECORDS, OTHER), clip)
    return strength * math.sqrt(units * (OTHER + 1)) / math.hypot(*map(np.linalg.norm, sums))


def _drawn_length(units: int, features: int, draws: int = 50) -> float:
    """Mean length of Laplace noise scaled by the printed Δ1 = m sqrt(d)."""
    scale = units * math.sqrt(features) / EPSILON
    noise = np.random.default_rng(0).laplace(scale=scale, size=(draws, units * (features + 1)))
    return float(np.mean(np.linalg.norm(noise, axis=1)))


# ------------------------------------------------------------- training


@lru_cache(maxsize=4)
def _multipliers(units: int) -> tuple[float, float]:
    """Laplace scale and Gaussian deviation for gradients of norm at most 1."""
    terms: Any = {"count": STEPS, "sampler": Poisson(RATE), "dimension": units * (FEATURES + 1)}
    promise = (Relation.REPLACE_ONE, EPSILON, DELTA)
    heavy = laplace.calibrate(bounded_sum(l1=1.0), *promise, **terms).noise
    light = gaussian.calibrate(bounded_sum(l2=1.0), *promise, **terms).noise
    assert isinstance(heavy, Laplace)
    assert isinstance(light, Gaussian)
    return heavy.scale, light.std


def _best_curve(method: str, units: int, quick: bool) -> np.ndarray:
    """Mean error after each step at the learning rate that ends best."""
    rates, seeds = (LEARNING_RATES[1::2], 2) if quick else (LEARNING_RATES, 6)
    means = [
        np.mean([_train(method, units, rate, seed) for seed in range(seeds)], axis=0)
        for rate in rates
    ]
    return min(means, key=lambda curve: float(curve[-1]))


def _train(method: str, units: int, learning_rate: float, seed: int) -> np.ndarray:
    """Share of the variance left on fresh records, (STEPS + 1,); infinite once it diverges."""
    rows, labels = two_layer.teacher_records(PEOPLE, FEATURES)
    fresh, truth = two_layer.teacher_records(500, FEATURES, seed=2)
    generator = np.random.default_rng([seed, 7])
    hidden = generator.normal(size=(units, FEATURES)) / math.sqrt(FEATURES)
    weights = Weights(hidden, np.zeros(units))  # says 0, about the mean, to everything
    clip = SHORT if method.startswith("clip") else math.inf
    errors = np.full(STEPS + 1, np.inf)
    for step in range(STEPS + 1):
        error = np.mean((two_layer.predictions(weights, fresh) - truth) ** 2) / np.var(truth)
        if error > 1e6:
            break
        errors[step] = error
        chosen = generator.random(PEOPLE) < RATE
        sums = two_layer.clipped_sum(weights, rows[chosen], labels[chosen], clip)
        noise = _noise(method, weights, generator)
        moves = [
            learning_rate * (total + extra) / (RATE * PEOPLE)
            for total, extra in zip(sums, noise, strict=True)
        ]
        weights = Weights(weights.hidden - moves[0], weights.output - moves[1])
    return errors


def _noise(method: str, weights: Weights, generator: Any) -> list[Any]:
    """Noise for the summed gradient, by W and by a."""
    shapes = [weights.hidden.shape, weights.output.shape]
    scale, std = _multipliers(len(weights.output))
    if method == "no noise":
        return [np.zeros(shape) for shape in shapes]
    if method == "clip, Gaussian":
        return [generator.normal(scale=std * SHORT, size=shape) for shape in shapes]
    if method == "clip, Laplace":
        most = SHORT * math.sqrt(weights.hidden.size + weights.output.size)
    else:  # a record alone is half of a pair
        most = two_layer.bounds(weights)[0] / 2
    return [generator.laplace(scale=scale * most, size=shape) for shape in shapes]


def _draw(figure: Any, sizes: Any, table: Any, ratios: Any, curves: Any) -> None:
    (by_units, by_features), (lengths, course) = figure.subplots(2, 2)
    for panel, name in ((by_units, "m"), (by_features, "d")):
        places = [(s, OTHER) if name == "m" else (OTHER, s) for s in sizes]
        for column, kind, style, label in (
            ("bound 1", "tanh", "k-", "bound from public weights"),
            ("found 1", "relu", "o-", "found, relu"),
            ("found 1", "tanh", "s-", "found, tanh"),
            ("typical", "relu", "^--", "typical pairs, relu"),
        ):
            panel.loglog(sizes, [table[*p, kind][column] for p in places], style, label=label)
        printed = [m * math.sqrt(d) for m, d in places]
        panel.loglog(sizes, printed, ":", color="0.4", label="m √d, as printed")
        what = "hidden units m" if name == "m" else "features d"
        panel.set(xlabel=f"{what}, the other is {OTHER}", ylabel="L1 sensitivity")
        panel.set_title("One record replaced, a = 1/m, w ~ N(0, I)")
    by_features.set_ylim(by_units.get_ylim())
    by_features.legend(fontsize=8)
    lengths.loglog(sizes, ratios["Laplace"], "^-", color="C3", label="Laplace, public weights")
    label = f"clip {CLIP:g}, Gaussian, delta {DELTA:g}"
    lengths.loglog(sizes, ratios["Gaussian"], "o-", color="C0", label=label)
    lengths.axhline(1, color="0.4", linestyle=":")
    lengths.set(
        xlabel=f"hidden units m, d = {OTHER}",
        ylabel="length of noise / gradient",
        title=f"One release, {RECORDS:,} records, epsilon {EPSILON:g}",
    )
    lengths.legend()
    for name, colour, line in zip(
        METHODS, ("k", "C0", "C1", "C3"), ("--", "-", "-", "-"), strict=True
    ):
        course.plot(curves[name], line, color=colour, label=name)
    course.axhline(1, color="0.4", linestyle=":")
    course.set(
        xlabel="step",
        ylabel="share of variance unexplained",
        ylim=(0, 1.2),
        title=f"Training, m = {UNITS}, epsilon {EPSILON:g}, delta {DELTA:g}",
    )
    course.legend()
