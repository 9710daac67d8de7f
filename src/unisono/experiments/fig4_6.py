"""Figure 4.6: figure 4.4 without noise, which leaves what clipping alone does.

Clipped statistics only lose precision, so the ratio q/p never exceeds 1, and KL falls as the clip
grows. What is left at C = 64 in the thesis is not due to the algorithm: its "true" posterior has
the prior variance 5 where the algorithm has 25. "N(0, 5)" is run under both readings: of standard
deviation 5, as in figure 4.4, and of variance 5 for slopes, learning and posterior alike.
"""

import numpy as np

from unisono.experiments.fig4_4 import (
    CLIPS,
    PARTIES,
    POINTS,
    SEEDS,
    draw,
    measure,
    measure_with_prior,
    medians,
)
from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.experiments.linear_case import PRIOR_VARIANCES, posterior, thesis_shards

EXPECTED = ((11, 16), (2.2, 2.7), (0.15, 0.28), (0.025, 0.06), (5e-4, 4e-3), (0, 1e-6), (0, 1e-6))
# Of variance 5 the slopes are smaller by √5, and so is what is clipped off.
NARROW = ((5.5, 7.5), (1.1, 1.5), (0.03, 0.06), (3e-3, 7e-3), (0, 1e-6), (0, 1e-6), (0, 1e-6))


def run(quick: bool) -> Findings:
    """Quick and full are the same: there is nothing random to repeat."""
    shards = thesis_shards(SEEDS, PARTIES, POINTS)
    found = measure(shards, 0.0, 1, ("local",), posterior(shards))["local"]
    thesis = measure(shards, 0.0, 1, ("local",), posterior(shards, prior_variance=5.0))["local"]
    kl = medians(found.kl)
    narrow = measure_with_prior(PRIOR_VARIANCES["variance 5"], 0.0, 1, ("local",))["local"]
    numbers = (
        *(
            ExpectedNumber(f"median KL at C = {clip:g}", float(value), *limits)
            for clip, value, limits in zip(CLIPS, kl, EXPECTED, strict=True)
        ),
        *(
            ExpectedNumber(
                f"median KL at C = {clip:g}, N(0, 5) of variance 5", float(value), *limits
            )
            for clip, value, limits in zip(CLIPS, medians(narrow.kl), NARROW, strict=True)
        ),
        ExpectedNumber(
            "median KL at C = 64, thesis's posterior", float(medians(thesis.kl)[-1]), 5e-5, 2e-4
        ),
        ExpectedNumber("largest precision ratio", float(found.ratio.max()), 0.99, 1.0),
        ExpectedNumber(
            "smallest fall of the median KL to the next clip",
            float(np.min(-np.diff(kl))),
            -1e-9,
            np.inf,
            "never rises",
        ),
        ExpectedNumber("precision ratio at C = 0.25", float(medians(found.ratio)[0]), 0.08, 0.09),
    )
    remarks = (
        "Without noise a larger clip is always better, and the precision is only ever "
        "underestimated, as the thesis says.",
        "Read as a variance, N(0, 5) has smaller slopes, of which less is clipped off: "
        f"{medians(narrow.kl)[0]:.1f} in place of {kl[0]:.1f} at C = 0.25. What the figure shows "
        "is the same under both readings.",
        f"The floor of 1e-4 is the posterior's prior variance 5 in place of 25; against "
        f"the right posterior {kl[-1]:.1g} remains, the residue of damping, 0.9^78.",
    )
    return Findings(
        "fig4_6",
        "Analytic updates without noise",
        "003, figure 4.6",
        numbers,
        remarks,
        lambda figure: draw(figure, shards.slope, {"Clipped, no noise": found}),
        (10.0, 7.5),
    )
