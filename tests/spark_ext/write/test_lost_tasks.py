"""Tasks that run again after a failure or a kill of their executor: no row is lost or duplicated.

Files of the first attempt become orphans at most. In `make test` a task fails; in `make test-long` executors are also
killed at each of STEPS.
"""

import time
from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import named_files, remove_orphan_files
from tests.support.spark.killed import run_killed

STEPS = (
    "open_output:*/bucket-?/data-*:kill-before",
    "open_output:*/bucket-?/data-*:kill-after",
    # All files are written, and the task is about to report them to Spark.
    "exists:*/snapshot/.write-*:kill-before",
    "exists:*/snapshot/.write-*:kill-after",
)
BEFORE = [(i, "a") for i in range(4)]
SOURCE = "(SELECT CAST(id AS INT) AS id, 'm' AS v FROM range(2, 60, 1, 3))"
STATEMENTS = {
    "insert": (
        "INSERT INTO lake.db.{} SELECT CAST(id AS INT), 'i' FROM range(100, 160, 1, 3)",
        [*BEFORE, *((i, "i") for i in range(100, 160))],
    ),
    "overwrite": (
        "INSERT OVERWRITE lake.db.{} SELECT CAST(id AS INT), 'o' FROM range(0, 60, 1, 3)",
        [(i, "o") for i in range(60)],
    ),
    "merge": (
        f"MERGE INTO lake.db.{{}} t USING {SOURCE} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        [*BEFORE[:2], *((i, "m") for i in range(2, 60))],
    ),
    "delete": ("DELETE FROM lake.db.{} WHERE id % 2 = 1", [row for row in BEFORE if row[0] % 2 == 0]),
    "compact": ("CALL lake.sys.compact(table => 'db.{}', compact_strategy => 'full')", BEFORE),
}
ALL = [
    *(("log", name, step) for name in STATEMENTS for step in STEPS),
    *((table, "merge", step) for table in ("marked", "keyed") for step in STEPS),
    *((table, "insert", step) for table in ("keyed", "adding") for step in STEPS),
    *((table, "compact", step) for table in ("marked", "keyed") for step in STEPS),
]
MARKED = {"deletion-vectors.enabled": "true"}
ADDING = {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Table]:
    """Tables: an append table, one with deletion vectors, one with a primary key, and one in which a duplicate row
    shows.
    """
    catalog = load_catalog(warehouse=str(tmp_path / "lake"))
    catalog.create_database("db")
    rows = pa.schema((("id", pa.int32()), ("v", pa.string())))
    keyed = pa.schema((pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string())))
    made = {
        "log": catalog.create_table("db.log", rows),
        "marked": catalog.create_table("db.marked", rows, options=MARKED),
        "keyed": catalog.create_table("db.keyed", keyed, primary_keys=["id"], options={"bucket": "2"}),
        "adding": catalog.create_table("db.adding", keyed, primary_keys=["id"], options=ADDING),
    }
    for table in made.values():
        write = table.upsert if table.primary_keys else table.append
        # Only some rows of the last file are deleted or updated, so the others are rewritten.
        for rows_of_file in (BEFORE[:1], BEFORE[1:2], BEFORE[2:]):
            ids, texts = zip(*rows_of_file, strict=True)
            write(pa.table({"id": ids, "v": texts}, schema=table.arrow_schema))
    return made


def _run(path: Path, master: str, statement: str, *, fault: str) -> None:
    once = path / "once"
    arguments = (master, str(path / "lake"), str(path / "pids"), statement)
    code = run_killed(path, "statement_program.py", *arguments, fault=fault, once=once)
    assert code == 0, (path / "log").read_text(errors="replace")[-4000:]
    assert once.exists(), "no task has met the fault"


def _rows(table: Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def _unnamed(table: Table) -> set[str]:
    """Return data files that no snapshot references."""
    return {str(f) for f in Path(table.location).rglob("bucket-*/*")} - set(named_files(table.store))


@pytest.mark.long
@pytest.mark.parametrize(("name", "statement", "step"), ALL)
def test_the_work_of_a_killed_executor_is_done_once_by_another(
    tables: dict[str, Table], tmp_path: Path, name: str, statement: str, step: str
) -> None:
    table = tables[name]
    sql, after = STATEMENTS[statement]

    _run(tmp_path, "local-cluster[2,1,1024]", sql.format(name), fault=step)

    assert _rows(table) == after
    assert not list(Path(table.location, "snapshot").glob(".write-*"))
    tomorrow = time.time() + 2 * 86_400
    remove_orphan_files(table.store, clock=lambda: tomorrow)
    assert _unnamed(table) == set()
    assert _rows(table) == after


@pytest.mark.long
def test_a_task_that_fails_once_leaves_no_file_of_its_first_attempt(tables: dict[str, Table], tmp_path: Path) -> None:
    table = tables["adding"]
    sql, after = STATEMENTS["insert"]

    _run(tmp_path, "local[2,3]", sql.format("adding"), fault=STEPS[2].replace("kill", "fail"))

    assert _rows(table) == after
    assert _unnamed(table) == set()
