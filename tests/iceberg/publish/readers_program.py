"""Run statements in DuckDB and ClickHouse, in the environment of readers-requirements.txt.

Standard input is a JSON list of [engine, statement]; standard output a JSON list of [rows, error], one of them null.
Rows are texts of values, as the engine itself writes them.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import chdb
import duckdb


def extension(name: str) -> str:
    """Return the path of an extension that a wheel contains."""
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert package is not None
    assert package.origin is not None
    return str(next(Path(package.origin).parent.rglob(f"{name}.duckdb_extension")))


def in_duckdb(connection: Any, statement: str) -> list[list[str | None]]:
    """Return the rows of a statement in DuckDB."""
    return [[None if v is None else str(v) for v in row] for row in connection.execute(statement).fetchall()]


def in_clickhouse(statement: str) -> list[list[str | None]]:
    """Return the rows of a statement in ClickHouse."""
    found = [json.loads(line) for line in str(chdb.query(statement, "JSONCompactEachRow")).splitlines()]
    return [[None if v is None else str(v) for v in row] for row in found]


def main() -> None:
    """Run all statements of standard input."""
    # ClickHouse reads only files below its working directory.
    os.chdir("/")
    connection = duckdb.connect()
    for name in ("httpfs", "avro", "iceberg"):
        connection.execute(f"LOAD '{extension(name)}'")
    answers: list[Any] = []
    for engine, statement in json.load(sys.stdin):
        try:
            rows = in_duckdb(connection, statement) if engine == "duckdb" else in_clickhouse(statement)
        except (duckdb.Error, RuntimeError) as error:
            answers.append([None, str(error)])
        else:
            answers.append([rows, None])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
