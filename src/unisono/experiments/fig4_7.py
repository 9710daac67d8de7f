"""Figure 4.7: posteriors without noise at both ends of the clips.

A large clip gives the exact posterior; a small one a wide posterior that is drawn towards zero. The
text speaks of the extremes of the clips, the caption of one clip, C = 2; shown are the
ends of figure 4.4's grid, C = 0.25 and C = 64.
"""

import numpy as np

from unisono.experiments.fig4_4 import CLIPS, PARTIES, POINTS, SEEDS
from unisono.experiments.fig4_5 import draw, last_answers
from unisono.experiments.findings import Findings, Number
from unisono.experiments.linear_case import posterior, thesis_shards
from unisono.problems.gaussian_family import mean


def run(quick: bool) -> Findings:
    """Quick and full are the same: there is no noise."""
    shards = thesis_shards(SEEDS, PARTIES, POINTS)
    true = posterior(shards)
    (small, small_kl), (large, large_kl) = (
        last_answers(shards, clip, 0.0) for clip in (CLIPS[0], CLIPS[-1])
    )
    middle = np.argsort(small_kl)[[len(small_kl) // 4, 3 * len(small_kl) // 4]]
    shrunk = np.mean(np.abs(mean(small)) < np.abs(mean(true)))
    numbers = (
        Number(
            "largest KL at C = 64",
            float(large_kl.max()),
            0,
            0.5,
            "the steepest slopes are still clipped",
        ),
        Number("median KL at C = 64", float(np.median(large_kl)), 0, 1e-6),
        Number(
            "median precision ratio at C = 0.25",
            float(np.median(small.precision / true.precision)),
            0.08,
            0.09,
        ),
        Number("data sets whose mean is nearer to zero at C = 0.25", float(shrunk), 0.6, 1),
    )
    remarks = (
        "At C = 64 the posterior is the exact one; at C = 0.25 it is about three times as wide, "
        f"and {100 * shrunk:.0f} % of the means are drawn towards zero.",
        "The text speaks of extremes, the caption of one clip, C = 2, which is not in figure 4.4's "
        "grid; which clips the thesis drew is not established.",
    )
    pairs = [
        (true, q, index, f"C = {clip:g}, θ = {shards.slope[index]:.1f}")
        for clip, q in ((CLIPS[0], small), (CLIPS[-1], large))
        for index in middle
    ]
    return Findings(
        "fig4_7",
        "Posteriors without noise at both ends of the clips",
        "003, figure 4.7",
        numbers,
        remarks,
        lambda figure: draw(figure, pairs, "clipped"),
        (9.0, 6.0),
    )
