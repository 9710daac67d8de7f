"""What an answer is about, in one line that every summary, note and report takes from here.

A regression weighs records by their columns alone, so that each adds a bounded amount. If the model
holds, weights move no coefficient. If it does not, coefficients are those of a projection in which
records with extreme columns have less weight, and the line says so.
"""

_WEIGHTED = "Records with extreme columns have less weight"
_LINES = {
    "binomial": f"log odds ratios. {_WEIGHTED}",
    "gaussian": "differences of the mean (least squares, targets clipped to their bounds). "
    f"{_WEIGHTED}",
    "symmetric": "differences of the mean if errors are symmetric given the columns (bounded "
    f"residuals). {_WEIGHTED}",
    "poisson": f"log rate ratios of the mean (quasi-Poisson). {_WEIGHTED}",
    "hazards": "log hazard ratios of events up to {horizon:g}, if hazards are proportional; if "
    f"not, an average over time in which early events count more. {_WEIGHTED}",
    "posterior": "the posterior of coefficients under this prior, for columns clipped to their "
    "bounds",
    "classes": "the class of new records from the same population, not effects of columns",
    "number": "the mean of the target for new records from the same population, not effects of "
    "columns",
}


def estimand(kind: str, **values: float) -> str:
    """The line about an answer of this kind; `values` are those that it names.

    >>> estimand("posterior")[:41]
    'Estimand: the posterior of coefficients u'
    """
    return f"Estimand: {_LINES[kind].format(**values)}."


def heavy_tails(names: list[str]) -> str:
    """A sentence about columns whose released counts have heavy tails, with the remedy."""
    return (
        f"Heavy tail: {', '.join(names)}. Records far from the middle have little weight, so a "
        "coefficient may differ from one without weights. Transform the column, for example log1p."
    )


__all__ = ["estimand", "heavy_tails"]
