"""Imports of a process by its use of the package: opening a table loads no Arrow, and interbed never loads pandas."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.unmeasured import unmeasured_environment
from tests.support.waits import at_most

STEPS = {
    "make": """
import interbed, pyarrow as pa
catalog = interbed.load_catalog(warehouse=warehouse)
catalog.create_database("b")
schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])
table = catalog.create_table("b.t", schema, primary_keys=["id"], options={"bucket": "2"})
""",
    "write": """
table.upsert([{"id": i, "name": str(i), "day": None} for i in range(100)])
table.upsert([{"id": 3, "name": "x", "day": None}])
table.delete("id = 5")
table.compact()
table.maintenance.expire_snapshots(retain_min=1, retain_max=1)
""",
    "open": "import interbed; table = interbed.load_catalog(warehouse=warehouse).get_table('b.t')",
    "plan": "table.scan(filter=\"id = 7 and name > 'a'\").plan",
    "plan by key": "table.scan(filter='id = 7').plan",
    "get": "table.get(7)",
    "nothing": "table.get(700); table.scan(filter='id in (700, 701)').to_arrow(); table.upsert([])",
    "read": "table.scan(filter='id between 3 and 9 or name is null', limit=5).to_arrow()",
    "first rows": "table.scan(limit=3).to_arrow()",
    "count": "table.count()",
    "head": """
from interbed.cli import main
main(["table", "head", "b.t", "-o", f"warehouse={warehouse}"], standalone_mode=False)
""",
    "look": "interbed.load_catalog(warehouse=warehouse).get_table('b.t$snapshots').scan().to_arrow()",
}
RUN = """
import json, sys
warehouse = sys.argv[1]
steps, loaded = json.loads(sys.argv[2]), []
for step in steps:
    exec(step)
    loaded.append(sorted(sys.modules))
print(json.dumps(loaded))
"""


def loaded_by(warehouse: Path, *steps: str) -> list[set[str]]:
    """Return the modules that a new process has loaded after each of the steps."""
    codes = json.dumps([STEPS[step] for step in steps])
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(warehouse), codes],
        check=True,
        capture_output=True,
        text=True,
        timeout=at_most(60),
        env=unmeasured_environment(),
    )
    return [set(modules) for modules in json.loads(done.stdout.splitlines()[-1])]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[set[str]]]:
    """Warehouse with a table, and the modules loaded by creating and writing it."""
    warehouse = tmp_path_factory.mktemp("lake")
    return warehouse, loaded_by(warehouse, "make", "write")


def layers(modules: set[str]) -> set[str]:
    """Return the layers of storage to which the modules belong."""
    return {name.split(".")[2] for name in modules if name.startswith("interbed.storage.") and name.count(".") > 2}


def test_a_step_loads_the_layers_that_it_needs(written: tuple[Path, list[set[str]]]) -> None:
    opened, planned, found, read, counted = loaded_by(written[0], "open", "plan", "get", "read", "count")
    assert layers(opened) == {"base", "io", "meta", "table"}
    assert layers(planned) <= layers(opened) | {"scan", "lsm", "files", "read"}
    assert "interbed.storage.read.table_read" not in planned
    assert layers(found) == layers(planned) | {"files"}
    for modules in (found, read, counted):
        assert not layers(modules) & {"write", "commit", "upkeep", "version"}
        # Formats, merge engines and indexes that this table does not use.
        assert not modules & {
            "interbed.storage.files.format.orc",
            "interbed.storage.files.format.avro",
            "interbed.storage.lsm.merge_function.aggregate",
            "interbed.storage.files.file_index.bitmap",
        }


def test_a_table_is_opened_without_arrow_and_without_modules_for_changes(written: tuple[Path, list[set[str]]]) -> None:
    (opened,) = loaded_by(written[0], "open")
    libraries = {name for name in opened if "." not in name} - sys.stdlib_module_names
    assert {name for name in libraries if not name.startswith("_")} == {"interbed"}
    assert not opened & {"concurrent.futures", "difflib", "hashlib", "shutil"}
    assert not opened & {
        "interbed.catalog.client.configuration",
        "interbed.catalog.client.partition",
        "interbed.storage.base.predicate.expr",
        "interbed.storage.base.row.values",
        "interbed.storage.base.types.arrow",
        "interbed.storage.meta.options.known.check",
        "interbed.storage.meta.schema.apply",
        "interbed.storage.meta.schema.change",
        "interbed.storage.meta.snapshot.history_journal",
    }


def test_a_plan_needs_neither_arrow_functions_nor_threads(written: tuple[Path, list[set[str]]]) -> None:
    _, planned = loaded_by(written[0], "open", "plan by key")
    assert not planned & {"pyarrow.compute", "pyarrow.fs", "pyarrow.parquet"}
    assert not planned & {"concurrent.futures", "html", "pyroaring", "secrets"}
    assert not planned & {
        "interbed.storage.base.predicate.evaluate",
        "interbed.storage.base.types.casting.cast",
        "interbed.storage.files.file_index.evaluate",
        "interbed.storage.meta.snapshot.tag",
    }


@pytest.mark.parametrize("step", ["get", "first rows"])
def test_rows_of_a_compacted_table_are_found_without_arrow_functions(
    written: tuple[Path, list[set[str]]], step: str
) -> None:
    _, found = loaded_by(written[0], "open", step)
    assert "pyarrow.parquet" in found
    assert "pyarrow.compute" not in found


def test_the_command_that_shows_rows_loads_no_other_output_format(written: tuple[Path, list[set[str]]]) -> None:
    (shown,) = loaded_by(written[0], "head")
    assert "rich" in shown
    assert not shown & {"pyarrow.compute", "pyarrow.csv", "interbed.storage.views.changes"}


def test_interbed_does_not_load_pandas_and_other_slow_libraries(written: tuple[Path, list[set[str]]]) -> None:
    assert importlib.util.find_spec("pandas") is not None, "without pandas this shows nothing"
    warehouse, making = written
    reading = loaded_by(warehouse, "open", "plan", "get", "read", "count", "look", "nothing")
    for modules in (*making, *reading):
        assert not modules & {"pandas", "pyarrow.dataset", "fsspec", "rich", "sqlalchemy", "asyncio"}
    # The grammar of filters is loaded for programs that use filters.
    assert "lark" not in reading[0]
