"""One wording for what several estimators have in common."""

import textwrap

# Prose, and no section of its own: numpydoc, by which scikit-learn shows estimators in notebooks,
# knows a fixed list of sections and warns of others.
_GUARANTEE = """
    Guarantee: (epsilon, delta)-differential privacy for one record under `relation`, against
    everyone who sees the model or every intermediate model, and per viewer as `certificate_` prints
    it. With `fit(X, y, persons=...)` it is for all records of one person.

    Tuning costs: every fit is a release, so each candidate and each fold of a `GridSearchCV` is
    one (see `RepeatedFits`); `PrivateSearch` has one epsilon for fits, scores and the choice.
"""
_COMMON = {
    "budget": "epsilon, delta : the budget of one fit.",
    "bounds": "bounds : public bounds of the features: (lowest, highest), each a number or one per "
    "feature, or of all columns of a frame by their names; or one "
    "number that bounds the norm of a row. What lies outside is clipped, each row "
    'by itself, with a `ClippedValues` warning. "private": ranges that hold all but about 2 % of '
    "the records are released first, for a part of the same epsilon and delta. None does so too, "
    "and warns (`UnboundedFeatures`) of what it cost; where there are too few records for it, each "
    "row is scaled on its own to the unit ball.",
    "columns": "columns : declarations of the columns of a frame, by name, in the words of study "
    'files: {"age": {"kind": "number", "bounds": (0, 120), "missing": "indicator", '
    '"fill": 40}, "sex": '
    '{"kind": "category", "values": ["F", "M"], "other": True}}, and kinds "ordinal", '
    '"true-false" and "date". Only these columns are read. Takes the place of `bounds`, and of '
    "`classes` or `target_bounds` where the target is declared too.",
    "records_per_person": "records_per_person : with `persons`, so many records of each are read "
    "at most, drawn in secret; None: 8.",
    "person_at_parties": "person_at_parties : at so many of the parties a person may have records.",
    "bounds_share": "bounds_share : the part of epsilon that pays for ranges, where bounds are "
    "private, and for classes that are.",
    "target_bounds": 'target_bounds : public (lowest, highest) target, or "private"; None as with '
    "`bounds`, or (-1, 1) where there are too few records.",
    "classes": "classes : the public list of all labels that may occur. Required: `fit` never "
    'reads it from y, where a rare label would give away whose it is. "private": the most frequent '
    "labels are found first, by noisy counts, for a part of the same epsilon and delta "
    "(`bounds_share`); records with others teach nothing.",
    "number_of_classes": "number_of_classes : how many classes there are, a public number, where "
    "they are private.",
    "relation": 'relation : "replace-one", "zero-out" or "add-or-remove"; the last needs '
    "`records`.",
    "trust": 'trust : "local", "secure-sum" or "trusted-server"; None: local for one party, else '
    "secure-sum.",
    "records": "records : public estimate of each party's size, for add-or-remove only.",
    "ledger": "ledger : a Ledger, or a mapping from party to Ledger; None books this fit in "
    "memory and warns (`FreshBudgetWarning`).",
    "minimum_parties": "minimum_parties : a round with fewer parties is not opened; None: all "
    "must answer.",
    "colluders": "colluders : parties who may pool what they know; None: 1, or 0 with a trusted "
    "server or a single party.",
    "random_state": "random_state : None draws noise from the operating system. A seed makes the "
    "fit a SIMULATION without privacy, which `certificate_` says and a `PredictableNoiseWarning`.",
    "class_weight": 'class_weight : public numbers by class, as {"ill": 5, "well": 1}: how much '
    "records of each count; 1 where a class is not named. They count before records are bounded, "
    'so the noise stays what it is. "balanced" is refused: counts of classes are private.',
    "largest_weight": "largest_weight : public bound of `sample_weight`, where `fit` is given it; "
    "larger weights are clipped to it. Weights count before records are bounded: noise is in "
    "proportion to a record of the largest weight, so that a bound far above the usual ones drowns "
    "them.",
    "engine": 'engine : "in-process", or "flower": the same study through Flower\'s messages.',
}
PARTIES = (
    "records",
    "ledger",
    "minimum_parties",
    "colluders",
    "random_state",
    "bounds_share",
    "columns",
    "records_per_person",
    "person_at_parties",
)
_FITTED = (
    "n_features_in_, certificate_ : width, and what is guaranteed to whom.",
    "epsilon_spent_ : the most that any party's ledger has spent in all against an untrusted "
    "viewer.",
    "bounds_, bounds_epsilon_ : ranges that were paid for, as (lowest, highest), and what they "
    "cost of epsilon, with classes that were; None and 0 where all is public.",
    "target_bounds_ : the same of the target, where it is a number; None where it is public.",
    "statements_ : what was assumed.",
    "feature_names_in_, encoded_names_ : the columns of a frame that are read; where they are "
    "declared, what a model sees of them, in the order of its coefficients.",
)


def documented(summary: str, parameters: tuple[str, ...], attributes: tuple[str, ...]) -> str:
    """A class's docstring; a parameter is the name of a common one, or its own description."""
    named = [_COMMON.get(text, text) for text in ("budget", *parameters)]
    return (
        f"{summary}\n{_GUARANTEE}\n    Parameters\n    ----------\n{_listed(named)}\n"
        f"\n    Attributes\n    ----------\n{_listed([*attributes, *_FITTED])}\n    "
    )


def _listed(texts: list[str]) -> str:
    """Names, and below each what it is: beside it would stand its type."""
    lines = []
    for text in texts:
        names, _, words = text.partition(" : ")
        lines += [f"    {names}", textwrap.indent(textwrap.fill(words, 90), " " * 8)]
    return "\n".join(lines)


__all__ = ["PARTIES", "documented"]
