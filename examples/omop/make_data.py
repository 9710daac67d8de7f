"""Three hospitals with tables in the shape of the OMOP common data model, all of it made up.

    python examples/omop/make_data.py omop

writes omop/north/clinic.duckdb, omop/north/policy.toml and so on, and omop/study.toml. With
--sql also omop/north/tables.sql, which `psql` or DuckDB read: the same tables for PostgreSQL.
"""

import argparse
import datetime
from collections.abc import Iterator
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ADULTS = {"north": 1200, "south": 900, "east": 1500}
CHILDREN = 60  # whom the queries leave out
SYSTOLIC, DIABETES, MALE, FEMALE, UNKNOWN = 3004249, 201826, 8507, 8532, 0
TABLES = {
    "person": "person_id INTEGER, gender_concept_id INTEGER, year_of_birth INTEGER",
    "visit_occurrence": "visit_occurrence_id INTEGER, person_id INTEGER, visit_start_date DATE",
    "measurement": "measurement_id INTEGER, person_id INTEGER, measurement_concept_id INTEGER, "
    "measurement_date DATE, value_as_number DOUBLE PRECISION",
    "condition_occurrence": "condition_occurrence_id INTEGER, person_id INTEGER, "
    "condition_concept_id INTEGER, condition_start_date DATE",
}


def main(folder: Path, sql: bool = False) -> None:
    for name in ADULTS:
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        statements = "\n".join(script(name))
        if sql:
            (home / "tables.sql").write_text(statements + "\n")
        load(home / "clinic.duckdb", statements)
        policy = (HERE / "policy.toml").read_text()
        (home / "policy.toml").write_text(policy.replace("north", name))
        print(f"{home}: {ADULTS[name]} adults")
    (folder / "study.toml").write_text((HERE / "study.toml").read_text())


def load(path: Path, statements: str) -> None:
    import duckdb

    path.unlink(missing_ok=True)
    connection = duckdb.connect(str(path))
    connection.execute(statements)
    connection.close()


def script(name: str) -> Iterator[str]:
    """The tables of one hospital, as SQL that DuckDB and PostgreSQL understand."""
    for table, rows in tables(name).items():
        yield f"CREATE TABLE {table} ({TABLES[table]});"
        for begin in range(0, len(rows), 500):
            listed = ",\n".join(f"({', '.join(row)})" for row in rows[begin : begin + 500])
            yield f"INSERT INTO {table} VALUES\n{listed};"


def tables(name: str) -> dict[str, list[tuple[str, ...]]]:
    """Rows of each table: values as SQL writes them."""
    generator = np.random.default_rng(list(ADULTS).index(name))
    found: dict[str, list[tuple[str, ...]]] = {table: [] for table in TABLES}

    def add(table: str, *values: object) -> None:
        number = [] if table == "person" else [str(len(found[table]) + 1)]
        found[table].append((*number, *map(str, values)))

    for person in range(1, ADULTS[name] + CHILDREN + 1):
        adult = person > CHILDREN
        born = int(generator.integers(1932, 2007)) if adult else int(generator.integers(2010, 2020))
        gender = generator.choice([FEMALE, MALE, UNKNOWN], p=[0.52, 0.46, 0.02])
        add("person", person, gender, born)
        sick = generator.random() < 0.05 + 0.15 * (2026 - born) / 100
        for _ in range(min(30, generator.poisson(2 + 3 * sick))):
            day = date(generator)
            add("visit_occurrence", person, day)
            if generator.random() < 0.6:
                pressure = 105 + 0.4 * (2026 - born) + 8 * sick + generator.normal(0, 14)
                add("measurement", person, SYSTOLIC, day, f"{pressure:.0f}")
        if sick:
            add("condition_occurrence", person, DIABETES, date(generator))
    return found


def date(generator: np.random.Generator) -> str:
    first = datetime.date(2023, 1, 1)
    return f"'{first + datetime.timedelta(days=int(generator.integers(0, 1000)))}'"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="omop", type=Path)
    parser.add_argument("--sql", action="store_true", help="also write tables.sql")
    asked = parser.parse_args()
    main(asked.folder, asked.sql)
