"""Figure 4.5: typical private posteriors beside the true ones.

The caption says C = 2, the text speaks of the KL that C = 0.25 has in figure 4.4, whose grid does
not hold 2. Which of the two was drawn is not established: both fit what the text says of the KL and
of posteriors that are wider and nearer to zero. Both are shown, with the data sets whose
KL is nearest to the median.
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
from unisono.experiments.findings import Findings, Number
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


def last_answers(shards: Shards, clip: float, sigma: float) -> tuple[Natural, Any]:
    """q after the last round of every data set, and its KL: (seeds,) each."""
    with jax.enable_x64(True):
        sums = clipped_sums(jnp.asarray(records(shards)), clip)
        noise = jax.random.normal(jax.random.key(0), (ROUNDS, *sums.shape))
        q = damped_iteration(sums, sigma * clip * noise, DAMPING, "local")
        last = Natural(np.asarray(q.shift[-1]), np.asarray(q.precision[-1]))
        return last, np.asarray(divergence(last, posterior(shards)))


def run(quick: bool) -> Findings:
    """Quick: medians over 8 draws of the noise in place of 40; the posteriors are of one draw."""
    shards = thesis_shards(SEEDS, PARTIES, POINTS)
    true = posterior(shards)
    many = measure(shards, SIGMA, 8 if quick else 40, ("local",), true, CLIPS)["local"]
    kls, ratios = medians(many.kl), medians(many.ratio)
    steep = np.abs(shards.slope) > 1  # below that the noise decides which mean is nearer to zero
    numbers, pairs, gaps = [], [], []
    for clip, kl_expected, ratio_expected, likely, ratio in zip(
        CLIPS, ((17, 34), (20, 34)), ((0.08, 0.095), (0.44, 0.48)), kls, ratios, strict=True
    ):
        q, kl = last_answers(shards, clip, SIGMA)
        order = np.argsort(np.abs(np.log(kl / np.median(kl))))[:SHOWN]
        wider = np.mean(q.precision < true.precision)
        nearer = np.mean(np.abs(mean(q)[steep]) < np.abs(mean(true)[steep]))
        gaps += list((np.abs(mean(q) - mean(true)) * np.sqrt(true.precision))[order])
        pairs += [(true, q, n, f"C = {clip:g}, KL = {kl[n]:.0f}") for n in order]
        numbers += [
            Number(f"median KL at C = {clip:g}", float(likely), *kl_expected, "the text: 22"),
            Number(f"precision ratio at C = {clip:g}", float(ratio), *ratio_expected),
            Number(f"data sets whose private posterior is wider, C = {clip:g}", float(wider), 1, 1),
            Number(
                f"data sets with |θ| > 1 whose private mean is nearer to zero, C = {clip:g}",
                float(nearer),
                0.5,
                1,
            ),
        ]
    remarks = (
        f"The caption says C = {CLIPS[1]:g}, the text speaks of the KL of C = {CLIPS[0]:g}, the "
        "best of figure 4.4's grid, which does not hold the caption's. That they contradict each "
        f"other is not established: the median KL is {kls[1]:.0f} at the caption's and "
        f"{kls[0]:.0f} at the text's, and the precision is {ratios[1]:.2f} and {ratios[0]:.2f} of "
        "the true one, so that either may have been drawn.",
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


def draw(figure: Any, pairs: Any, name: str = "private") -> None:
    """True and other densities, one panel for each (true, other, data set, title)."""
    panels = figure.subplots(2, len(pairs) // 2).ravel()
    for axes, (true, other, index, title) in zip(panels, pairs, strict=True):
        for q, style, label in ((true, "-", "true"), (other, "--", name)):
            centre, width = mean(q)[index], q.precision[index] ** -0.5
            grid = centre + width * np.linspace(-4, 4, 400)
            density = np.exp(-0.5 * ((grid - centre) / width) ** 2) / (width * np.sqrt(2 * np.pi))
            axes.plot(grid, density, style, label=label)
        axes.set(xlabel="θ", ylabel="density", title=title)
    panels[0].legend(fontsize=8)
