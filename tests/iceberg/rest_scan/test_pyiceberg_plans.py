"""Plans compared with pyiceberg's: the same files and deletes, and residual filters that mean what the filter means.

pyiceberg's residuals are not compared as texts, since it fails for a null partition under `<`. The residual of a file
is evaluated on each of its rows instead.
"""

import json
import tempfile
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import expression_evaluator, rewrite_not
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent

from interbed.iceberg.rest_scan import pages as pages_module
from interbed.iceberg.rest_scan.conditions import parsed_condition
from interbed.iceberg.rest_scan.pages import ManifestCache, RestScan, ScanPages, ScanPlace
from tests.iceberg.rest_scan.manifest_table import COLUMNS, SPECS, ManifestTable, Values, record
from tests.support.examples import examples

_IDS = [None, -7, 0, 3, 5, 12, 14, 1 << 40]
_NAMES = [None, "", "a", "ab", "abc", "abd", "b", "ü€"]
_DAYS = [None, *map(date.fromisoformat, ("1969-12-31", "1970-01-01", "2024-02-29", "2024-03-01", "2025-12-31"))]
_TIMES = [
    None,
    *map(
        datetime.fromisoformat,
        ("1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "2024-02-29T10:59:59", "2024-02-29T11:00:00"),
    ),
]
_AMOUNTS = [None, *map(Decimal, ("-0.01", "0.00", "0.99", "1.00", "12.34"))]
# pyiceberg rounds partition values of DOUBLE to FLOAT, which changes none of these.
_SCORES = [None, -1.5, 0.0, 0.25, 2.5]
_FLAGS = [None, True, False]
_POOLS: Sequence[Sequence[Any]] = (_IDS, _NAMES, _DAYS, _TIMES, _AMOUNTS, _SCORES, _FLAGS, [1, 2, 3])

ROWS = st.tuples(*(st.sampled_from(pool) for pool in _POOLS))


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[int, list[Values], bool]]:
    """Draw appends: the spec, the rows, and whether rows of one of the files are then deleted by position."""
    specs = draw(st.lists(st.sampled_from(range(len(SPECS))), min_size=1, max_size=4))
    return [(spec, draw(st.lists(ROWS, min_size=1, max_size=8)), draw(st.booleans())) for spec in specs]


def _json_of(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else str(value) if isinstance(value, Decimal) else value


@st.composite
def column_tests(draw: st.DrawFn) -> Any:
    """Draw a test of a column in JSON."""
    place = draw(st.integers(0, len(_POOLS) - 1))
    name = COLUMNS.fields[place].name
    known = [_json_of(value) for value in _POOLS[place] if value is not None]
    words = ["is-null", "not-null", "eq", "not-eq", "in", "not-in"]
    if name != "flag":
        words += ["lt", "lt-eq", "gt", "gt-eq"]
    words += {"name": ["starts-with", "not-starts-with"], "score": ["is-nan", "not-nan"]}.get(name, [])
    word = draw(st.sampled_from(words))
    if word in ("is-null", "not-null", "is-nan", "not-nan"):
        return {"type": word, "term": name}
    if word in ("in", "not-in"):
        return {"type": word, "term": name, "values": draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))}
    return {"type": word, "term": name, "value": draw(st.sampled_from(known))}


def _joined(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    join = st.fixed_dictionaries({"type": st.sampled_from(["and", "or"]), "left": children, "right": children})
    return join | st.fixed_dictionaries({"type": st.just("not"), "child": children})


FILTERS = st.recursive(column_tests() | st.booleans(), _joined, max_leaves=6)
_EXPRESSIONS: TypeAdapter[BooleanExpression] = TypeAdapter(BooleanExpression)


def _made(directory: str, appends: list[tuple[int, list[Values], bool]]) -> ManifestTable:
    table = ManifestTable(Path(directory))
    for number, rows, has_deletes in appends:
        paths = table.append(SPECS[number], rows)
        if has_deletes:
            table.delete_positions(SPECS[number], paths[:1])
    return table


def _passes(filter_json: Any, rows: Sequence[Values]) -> list[bool]:
    # The negation of a comparison is the opposite comparison, which is false for null as well.
    evaluate = expression_evaluator(COLUMNS, rewrite_not(_EXPRESSIONS.validate_python(filter_json)), True)
    return [evaluate(record(row)) for row in rows]


@settings(max_examples=examples(400))
@given(appends=tables(), filters=st.lists(FILTERS, min_size=4, max_size=4))
def test_files_deletes_and_residuals_are_those_of_pyiceberg(
    appends: list[tuple[int, list[Values], bool]], filters: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = _made(directory, appends)
        theirs = table.table
        deletes = {
            task.file.file_path: {file.file_path for file in task.delete_files} for task in theirs.scan().plan_files()
        }
        for filter_json in filters:
            scan = theirs.scan(row_filter=_EXPRESSIONS.validate_python(filter_json))
            entries = chain.from_iterable(scan._plan_manifest_entries())
            wanted = {entry.data_file.file_path for entry in entries if entry.data_file.content == DataFileContent.DATA}
            page = _page(table, filter_json)
            paths = [file["file-path"] for file in page.deletes]
            found = {task["data-file"]["file-path"]: task for task in page.tasks}
            assert set(found) == wanted
            for path, task in found.items():
                assert {paths[index] for index in task.get("delete-file-references", ())} == deletes[path]
                rows = table.rows[path]
                assert _passes(task["residual-filter"], rows) == _passes(filter_json, rows)
            for path in set(table.rows) - wanted:
                assert not any(_passes(filter_json, table.rows[path]))


@pytest.mark.parametrize("value", [0.1, -0.1, 1e300, 5e-324])
def test_a_partition_by_double_is_found_by_its_exact_value(value: float, tmp_path: Path) -> None:
    table = ManifestTable(tmp_path)
    table.append(SPECS[9], [(1, None, None, None, None, value, None, 1)])
    page = _page(table, {"type": "eq", "term": "score", "value": value})
    (task,) = page.tasks
    assert (task["data-file"]["partition"], task["residual-filter"]) == ([value], True)
    assert _page(table, {"type": "not-eq", "term": "score", "value": value}).tasks == []


def test_large_manifests_are_decoded_one_entry_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "PAGE_FILES", 3)
    table = ManifestTable(tmp_path)
    rows = [(number, None, None, None, None, None, None, 1) for number in range(10)]
    paths = table.append(SPECS[12], rows)
    table.delete_positions(SPECS[12], paths[7:8])
    table.append(SPECS[0], rows)
    metadata, scan = (
        table.metadata,
        RestScan(snapshot=table.snapshots[-1], schema=COLUMNS, condition=parsed_condition(True, COLUMNS)),
    )
    for limit in (1, 64 << 20):
        pages = ScanPages(metadata, PyArrowFileIO(), scan, ManifestCache(limit))
        place: ScanPlace | None = ScanPlace()
        found, deleted = [], []
        while place is not None:
            page = pages.page(place, pages.end)
            found += [task["data-file"]["file-path"] for task in page.tasks]
            deleted += [task["data-file"]["file-path"] for task in page.tasks if "delete-file-references" in task]
            place = page.following
        assert found == list(table.rows)
        assert deleted == [paths[7]]


def _page(table: ManifestTable, filter_json: Any) -> Any:
    metadata = table.metadata
    snapshot = metadata.current_snapshot()
    assert snapshot is not None
    condition = parsed_condition(filter_json, COLUMNS)
    scan = RestScan(snapshot=snapshot, schema=COLUMNS, condition=condition)
    pages = ScanPages(metadata, PyArrowFileIO(), scan, ManifestCache())
    page = pages.page(ScanPlace(), pages.end)
    # What is sent is JSON.
    json.dumps(page.tasks)
    assert page.following is None
    return page
