"""A private statistic in three lines.

    import unisono
    book = unisono.open_ledger("ages.ledger", dataset="ages", epsilon=1.0, delta=1e-6)
    print(unisono.mean(ages, bounds=(0, 120), epsilon=0.5, ledger=book))

Each function is a study of one party that makes one release: it bounds the records by *public*
bounds, pays with the data set's ledger, draws exact integer noise and returns an `Estimate` that
prints its interval and its guarantee. The noise is discrete Laplace (pure epsilon) or, with a
`delta`, Gaussian.

    count, total, mean, histogram           doubles and 64-bit integers    `engines.one_round`
    variance, std, median, quantile         the questions of a `Survey`    `engines.in_process`
    t_test, median_test, proportion_test,   likewise: two groups, or two
    chi_square, fisher                      categories, compared

All but the first four are what `unisono query` asks, with one party: records are 32-bit floats
there, and JAX is imported when one of them is first called. So are the first eight where `persons`
are hidden, or where records are streamed.

Values are a list or an array; with `column`, a frame of pandas, polars or Arrow, a DuckDB relation,
lists by name, a path to a Parquet or CSV file, or a function that begins the same batches anew
whenever it is called. What is larger than memory is read block by block.

    unisono.mean(visits, (0, 300), column="pressure", persons="patient", epsilon=0.5, ledger=book)

With `persons`, ids or a column of them, what is hidden is all records of one person, as with unit =
"person" in study files: every person counts once, and its records share that weight, so that a mean
is one of persons' means and a count adds up shares of persons. Of more than `records_per_person`
records so many are drawn in secret. The number of *persons* is public, that of records is not.

Every record is read by itself (`unisono.data`): a list is never made one array of one kind, and a
value that cannot be read adds nothing to a count, a sum or a histogram. Whoever calls is warned.
A missing value does not count in a mean, spread or quantile: how many are there is released in the
same event. `complete=True` declares, from public knowledge, that none is missing.
"""

from unisono.statistics.ledgers import open_ledger, verify
from unisono.statistics.one_column import (
    count,
    histogram,
    mean,
    median,
    quantile,
    std,
    total,
    variance,
)
from unisono.statistics.two_columns import chi_square, fisher, median_test, proportion_test, t_test

__all__ = [
    "chi_square",
    "count",
    "fisher",
    "histogram",
    "mean",
    "median",
    "median_test",
    "open_ledger",
    "proportion_test",
    "quantile",
    "std",
    "t_test",
    "total",
    "variance",
    "verify",
]
