"""A party's own SQL: one query that reads, and a word of caution where rows may depend on others.

The promise is about the rows that a query returns: a row is a record. Where a row is made of one
person's entries alone, it hides what one would expect. Aggregates, window functions, DISTINCT and
LIMIT can make a row, or whether it is there, depend on other people's entries, which no program can
tell in general; so its owner is told, and nobody else.
"""

import re
import warnings
from collections.abc import Iterator
from itertools import pairwise

from unisono.errors import InvalidInput

# Comments, text, quoted names, words and single characters, in PostgreSQL's and DuckDB's SQL.
_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[eExXbB]?'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<name>"(?:[^"]|"")*")|(?P<word>[A-Za-z_]\w*)|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_AGGREGATES = re.compile(
    "any_value|approx_count_distinct|approx_quantile|arg_max|arg_min|array_agg|avg|bit_and|bit_or"
    "|bool_and|bool_or|corr|count|covar_pop|covar_samp|every|favg|first|fsum|group_concat|histogram"
    "|json_agg|jsonb_agg|kurtosis|last|list|listagg|max|max_by|mean|median|min|min_by|mode"
    "|percentile_cont|percentile_disc|product|quantile|quantile_cont|quantile_disc|regr_slope"
    "|skewness|stddev|stddev_pop|stddev_samp|string_agg|sum|sumkahan|var_pop|var_samp|variance"
)
_FILES = re.compile(
    r"(?:read|scan|sniff|parquet|json|glob|query|postgres|mysql|sqlite|iceberg)_\w+"
)


class RowsOfOthers(UserWarning):
    """A party's query may make rows depend on other people's entries; only it is told."""


def require_query(sql: str) -> None:
    """Refuse whatever is not one SELECT or WITH statement.

    >>> require_query("select age from visits; ")
    """
    words = list(_words(sql))
    while words and words[-1] == ";":
        words.pop()
    if ";" in words:
        raise InvalidInput(
            "sql holds several statements: give one query, and prepare what it needs beforehand"
        )
    first = next((word for word in words if word != "("), "")
    if first not in ("select", "with"):
        raise InvalidInput(
            f"sql begins with {first or 'nothing'!r}: give one query that reads, SELECT ... or "
            "WITH ... SELECT ..."
        )


def require_named_files(sql: str) -> None:
    """Refuse a query that opens files itself: a reader that guesses types from values lets one
    record decide how others are read."""
    before = ""
    for word, next_word in _pairs(sql):
        opens = _FILES.fullmatch(word) and next_word == "("
        if opens or (word == "''" and before in ("from", "join")):
            raise InvalidInput(
                f"sql opens a file itself ({word if opens else before + chr(32) + 'a quoted name'})"
                ': name the file under [source.files], as visits = "visits.parquet", and write '
                "FROM visits; then no cell decides how others are read"
            )
        before = word


def cautions(sql: str) -> list[str]:
    """What may make a row depend on other people's entries, in words.

    >>> cautions("SELECT age, 'count(x)' AS note FROM visits")
    []
    >>> cautions("select distinct on (person) age, rank() over (order by age) from v limit 9")
    ['DISTINCT', 'a window function (OVER)', 'LIMIT']
    """
    found: list[str] = []
    for word, next_word in _pairs(sql):
        if word == "distinct":
            found.append("DISTINCT")
        elif (word == "over" and next_word in ("(", "name")) or (word == "qualify"):
            found.append("a window function (OVER)")
        elif word in ("limit", "offset", "fetch", "tablesample") or (
            word == "using" and next_word == "sample"
        ):
            found.append("LIMIT" if word == "limit" else word.upper())
        elif (word == "group" and next_word == "by") or (
            _AGGREGATES.fullmatch(word) and next_word == "("
        ):
            found.append("aggregates (GROUP BY)")
    return list(dict.fromkeys(found))


def warn_of_rows(sql: str, where: str) -> None:
    """Tell whoever wrote the query, and nobody else."""
    if found := cautions(sql):
        warnings.warn(
            f"{where}: the query holds {' and '.join(found)}: what is promised holds for the rows "
            "that it returns, each as one record. Make sure that a row is made of one person's "
            "entries alone, and is there because of them alone; nobody else is told",
            RowsOfOthers,
            stacklevel=3,
        )


def _words(sql: str) -> Iterator[str]:
    """Words in small letters and single characters; a quoted name is 'name', text is ''."""
    for token in _TOKEN.finditer(sql):
        if token["skip"] is None:
            yield (
                "''"
                if token["text"] is not None
                else "name"
                if token["name"] is not None
                else token[0].lower()
            )


def _pairs(sql: str) -> Iterator[tuple[str, str]]:
    words = [*_words(sql), ""]
    return pairwise(words)


def quoted(name: str) -> str:
    """A name as SQL writes it.

    >>> quoted('year "of" birth')
    '"year ""of"" birth"'
    """
    return '"' + name.replace('"', '""') + '"'


__all__ = [
    "RowsOfOthers",
    "cautions",
    "quoted",
    "require_named_files",
    "require_query",
    "warn_of_rows",
]
