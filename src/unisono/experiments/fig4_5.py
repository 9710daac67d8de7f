"""Figure 4.5: typical private posteriors beside the true ones, at the text's and caption's clips.

The caption says C = 2; the text speaks of the KL of 22 that C = 0.25 has in figure 4.4, whose grid
does not hold 2. Both are run on the same draws of the noise. What the text says holds at either:
22 lies well inside the medians that the noise alone gives, private posteriors are wider, and their
means nearer to zero. So neither clip is ruled out. Shown are the data sets whose KL is
nearest to the median.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.experiments.fig4_4 import (
    DAMPING,
    PARTIES,
    POINTS,
    ROUNDS,
    SEEDS,
    SIGMA,
    measure,
    medians,
)
from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.experiments.linear_case import (
    Shards,
    clipped_sums,
    damped_iteration,
    divergence,
    posterior,
    records,
    thesis_shards,
)
from unisono.problems.gaussian_family import Natural, mean

CLIPS, SHOWN = (0.25, 2.0), 2  # the text's and the caption's, and data sets shown of each
TEXT = 22.0  # the median KL that the text states


def last_answers(shards: Shards, clip: float, sigma: float) -> tuple[Natural, Any]:
    """q after the last round of every data set, and its KL: (seeds,) each."""
    with jax.enable_x64(True):
        sums = clipped_sums(jnp.asarray(records(shards)), clip)
        noise = jax.random.normal(jax.random.key(0), (ROUNDS, *sums.shape))
        q = damped_iteration(sums, sigma * clip * noise, DAMPING, "local")
        last = Natural(np.asarray(q.shift[-1]), np.asarray(q.precision[-1]))
        return last, np.asarray(divergence(last, posterior(shards)))


def run(quick: bool) -> Findings:
    """Quick: medians over 40 draws of the noise in place of 200; the posteriors are of one draw."""
    shards = thesis_shards(SEEDS, PARTIES, POINTS)
    true = posterior(shards)
    many = measure(shards, SIGMA, 40 if quick else 200, ("local",), true, CLIPS)["local"]
    kls, ratios = medians(many.kl), medians(many.ratio)
    per_draw = np.median(many.kl, axis=-1)
    low, high = np.quantile(per_draw, [0.05, 0.95], axis=0)
    below = np.mean(per_draw <= TEXT, axis=0)
    steep = np.abs(shards.slope) > 1  # below that the noise decides which mean is nearer to zero
    numbers, pairs, gaps = [], [], []
    expected = (((21, 26), (0.08, 0.095)), ((24, 30), (0.44, 0.48)))
    for index, (clip, (kl_expected, ratio_expected)) in enumerate(
        zip(CLIPS, expected, strict=True)
    ):
        q, kl = last_answers(shards, clip, SIGMA)
        order = np.argsort(np.abs(np.log(kl / np.median(kl))))[:SHOWN]
        wider = np.mean(q.precision < true.precision)
        nearer = np.mean(np.abs(mean(q)[steep]) < np.abs(mean(true)[steep]))
        gaps += list((np.abs(mean(q) - mean(true)) * np.sqrt(true.precision))[order])
        pairs += [(true, q, n, f"C = {clip:g}, KL = {kl[n]:.0f}") for n in order]
        numbers += [
            ExpectedNumber(
                f"median KL at C = {clip:g}",
                float(kls[index]),
                *kl_expected,
                f"5-95 % of the draws: {low[index]:.0f} to {high[index]:.0f}; the text: 22",
            ),
            ExpectedNumber(
                f"draws whose median KL is at most the text's 22, C = {clip:g}",
                float(below[index]),
                0.1,
                0.9,
                "outside, the text would not fit this clip",
            ),
            ExpectedNumber(
                f"precision ratio at C = {clip:g}", float(ratios[index]), *ratio_expected
            ),
            ExpectedNumber(
                f"data sets whose private posterior is wider, C = {clip:g}", float(wider), 1, 1
            ),
            ExpectedNumber(
                f"data sets with |θ| > 1 whose private mean is nearer to zero, C = {clip:g}",
                float(nearer),
                0.5,
                1,
            ),
        ]
    remarks = (
        f"The caption's C = {CLIPS[1]:g} is not in figure 4.4's grid; the text speaks of the KL "
        f"that C = {CLIPS[0]:g} has there, 22. Either fits: over {len(per_draw)} draws of the "
        f"noise the median KL is {kls[0]:.0f} ({low[0]:.0f} to {high[0]:.0f}, 5-95 %) at "
        f"C = {CLIPS[0]:g} and {kls[1]:.0f} ({low[1]:.0f} to {high[1]:.0f}) at C = {CLIPS[1]:g}, "
        f"so caption and text need not contradict each other.",
        f"The widths could tell them apart: the precision is {ratios[0]:.2f} of the true one at "
        f"C = {CLIPS[0]:g} and {ratios[1]:.2f} at C = {CLIPS[1]:g}, posteriors "
        f"{ratios[0] ** -0.5:.1f} and {ratios[1] ** -0.5:.1f} times as wide. The text says of "
        "them only that they are wider.",
        "At both, private posteriors are wider than the true ones and most means of steep slopes "
        f"nearer to zero. At such a KL the private mean is {np.median(gaps):.1f} of the true "
        "posterior's standard deviations off (median of those shown), which the thesis calls "
        "reasonable.",
    )
    return Findings(
        "fig4_5",
        "Typical private posteriors, C = 0.25 and C = 2",
        "003, figure 4.5",
        tuple(numbers),
        remarks,
        lambda figure: draw(figure, pairs),
        (9.0, 6.0),
    )


def draw(figure: Any, pairs: Any, name: str = "private", one_scale: bool = False) -> None:
    """True and other densities, one panel for each (true, other, data set, title), in two rows;
    `one_scale` where the panels of a row show the same data set."""
    panels = figure.subplots(2, len(pairs) // 2, sharex="row" if one_scale else False).ravel()
    for axes, (true, other, index, title) in zip(panels, pairs, strict=True):
        for q, style, label in ((true, "-", "true"), (other, "--", name)):
            centre, width = mean(q)[index], q.precision[index] ** -0.5
            grid = centre + width * np.linspace(-4, 4, 400)
            density = np.exp(-0.5 * ((grid - centre) / width) ** 2) / (width * np.sqrt(2 * np.pi))
            axes.plot(grid, density, style, label=label)
        axes.set(xlabel="θ", ylabel="density", title=title)
    panels[0].legend(fontsize=8)
