"""Reads of the wall clock: a decision by time takes the clock as an argument, so that tests set it (STYLE.md).

The clock of milliseconds is `storage/base/clock.py`. Code whose clock is a parameter names the function, and does not
call it.
"""

import ast
from pathlib import Path

from tests.support.packages import ROOT, source_files
from tests.support.source_trees import source_tree

_OF_TIME = {"time", "time_ns"}
_WITHOUT_ARGUMENT = {"gmtime", "localtime", "ctime"}
_OF_DATETIME = {"now", "utcnow", "today"}
_OURS = {"now_millis", "local_millis"}

_RECORDED = "the time is recorded with what is made, and decides nothing"
_SHOWN = "the command shows ages and states to people"
_GIVEN = "the command is the caller that gives the time to a rule"

READERS = {
    "catalog/client/cli/describe.py": (1, _SHOWN),
    "catalog/client/hive/databases.py": (1, _RECORDED),
    "catalog/client/hive/format_entries.py": (2, _RECORDED),
    "catalog/client/hive/lock.py": (1, "the error names the age of the lock"),
    "catalog/client/hive/publisher.py": (1, _RECORDED),
    "catalog/client/hive/registration.py": (1, _RECORDED),
    "catalog/server/cli/access.py": (1, _SHOWN),
    "catalog/server/cli/locks.py": (2, _SHOWN),
    "catalog/server/console/operation_pages.py": (2, _SHOWN),
    "catalog/server/database/events.py": (1, _RECORDED),
    "catalog/server/ops/logs.py": (1, _RECORDED),
    "catalog/server/rest/iceberg/store.py": (1, "the clock of the metadata that the server makes"),
    "catalog/server/thrift/calls/service.py": (1, "the answer to `aliveSince`"),
    "iceberg/commit/replace.py": (1, _RECORDED),
    "iceberg/publish/registration.py": (1, _RECORDED),
    "ingest/sources/postgres/replication.py": (1, "PostgreSQL's protocol has the time in each report"),
    "optimizer/cli/status.py": (8, _GIVEN),
    "optimizer/work/iceberg_tables.py": (1, "health is a pure function of the time"),
    "spark_ext/handle/table_handle.py": (1, "the renewal of a token is a pure function of the time"),
    "spark_ext/procedures/metadata.py": (1, _GIVEN),
    "storage/base/clock.py": (2, "the clock"),
    "storage/commit/snapshot_builder.py": (1, _RECORDED),
    "storage/io/stores/options.py": (2, "keys are stamped with their renewal, and the error names when they ended"),
    "storage/log/publisher.py": (1, _RECORDED),
    "storage/meta/schema/apply.py": (1, _RECORDED),
    "storage/meta/schema/table_schema.py": (1, _RECORDED),
    "storage/scan/starting_point.py": (1, "the error has the name of a tag as an example"),
}
"""Modules that read the wall clock themselves, how often, and why; others take the clock as an argument."""


def reads_of_the_clock(tree: ast.AST) -> int:
    """Return the number of calls in a module that return the wall clock's time."""
    return sum(isinstance(node, ast.Call) and _is_read(node) for node in ast.walk(tree))


def _is_read(call: ast.Call) -> bool:
    *modules, name = ast.unparse(call.func).split(".")
    if not modules:
        return name in _OURS
    if modules[-1] == "time":
        return name in _OF_TIME or (name in _WITHOUT_ARGUMENT and not call.args)
    return modules[-1] in ("datetime", "date") and name in _OF_DATETIME


def test_the_wall_clock_is_read_only_where_its_time_is_recorded_or_shown() -> None:
    found = {str(file.relative_to(ROOT)): number for file in source_files() if (number := _reads_in(file))}
    assert found == {name: number for name, (number, _) in READERS.items()}
    assert list(READERS) == sorted(READERS)


def _reads_in(file: Path) -> int:
    text = file.read_text(encoding="utf-8")
    words = (*_OF_TIME, *_WITHOUT_ARGUMENT, *_OF_DATETIME, *_OURS)
    return reads_of_the_clock(source_tree(file)) if any(f"{word}(" in text for word in words) else 0


def test_each_way_to_read_the_clock_is_found() -> None:
    reads = "time.time(); time.time_ns(); datetime.now(UTC); dt.datetime.utcnow(); date.today(); time.gmtime()"
    assert reads_of_the_clock(ast.parse(f"{reads}; now_millis(); local_millis()")) == 8
    others = "clock(); self.now(); time.monotonic(); time.gmtime(seconds); given(clock=time.time)"
    assert reads_of_the_clock(ast.parse(others)) == 0
