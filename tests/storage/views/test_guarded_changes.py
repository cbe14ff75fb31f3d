"""Changes under row filters and column masks: applied one after the other they give the shown rows of each snapshot."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.base.predicate.json import filter_to_paimon, mask_to_paimon
from interbed.storage.base.predicate.masks import parse_mask
from interbed.storage.read.guarded_scan import RowRules
from interbed.storage.table.guarded_table import GuardedTable
from interbed.storage.table.table import Table

INSERT, BEFORE, AFTER, DELETE = range(4)
CONDITION = "amount > 4"
SCHEMA = pa.schema(
    (
        pa.field("id", pa.int32()),
        pa.field("amount", pa.int32()),
        pa.field("phone", pa.string()),
        pa.field("city", pa.string()),
    )
)


def _made(warehouse: Path, producer: str = "none", *, keyed: bool = True) -> Table:
    with interbed.load_catalog(warehouse=str(warehouse)) as catalog:
        catalog.create_database("d", ignore_if_exists=True)
        kind: dict[str, Any] = (
            {"primary_keys": ["id"], "options": {"bucket": "1", "changelog-producer": producer}} if keyed else {}
        )
        return catalog.create_table("d.t", SCHEMA, **kind)


def _guarded(
    table: Table, *, condition: str | None = CONDITION, mask: str | None = "CONCAT('*', city)"
) -> GuardedTable:
    fields = table.schema.fields
    filters = [] if condition is None else [filter_to_paimon(parse_filter(condition, fields), fields)]
    masks = {} if mask is None else {"phone": mask_to_paimon(parse_mask(mask, "phone", fields), fields)}
    return GuardedTable(table, lambda _branch, _columns: RowRules(filters=filters, masks=masks))


def _row(key: int, amount: int) -> dict[str, object]:
    return {"id": key, "amount": amount, "phone": f"{key}{amount}", "city": f"c{amount}"}


def _shown(rows: dict[int, int]) -> dict[int, dict[str, object]]:
    return {key: {**_row(key, amount), "phone": f"*c{amount}"} for key, amount in rows.items() if amount > 4}


def _applied(state: dict[int, dict[str, object]], changes: Sequence[dict[str, Any]]) -> None:
    """Apply changes as a reader does, which checks what each says about its own rows."""
    for change in changes:
        kind, row = change.pop("_row_kind"), change
        if kind == INSERT:
            assert row["id"] not in state
            state[row["id"]] = row
        elif kind == AFTER:
            assert row["id"] in state
            state[row["id"]] = row
        else:
            assert state[row["id"]] == row
            if kind == DELETE:
                del state[row["id"]]


_STEPS = st.lists(
    st.dictionaries(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@settings(max_examples=15, deadline=None)
@given(steps=_STEPS)
def test_shown_changes_give_the_shown_rows_of_each_snapshot(producer: str, steps: list[dict[int, int | None]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = _made(Path(directory), producer)
        rows: dict[int, int] = {}
        states: dict[int, dict[int, dict[str, object]]] = {}
        for step in steps:
            changed = {key: amount for key, amount in step.items() if amount is not None}
            deleted = [key for key, amount in step.items() if amount is None and key in rows]
            if changed:
                table.upsert([_row(key, amount) for key, amount in changed.items()])
            rows |= changed
            if deleted:
                table.delete(f"id IN ({', '.join(map(str, deleted))})")
            for key in deleted:
                del rows[key]
            table.compact(full=True)
            newest = table.latest_snapshot()
            if newest is not None:
                states[newest.id] = _shown(rows)
        guarded = _guarded(table)
        seen: dict[int, dict[str, object]] = {}
        for part in guarded.stream(from_snapshot=1, idle_seconds=0):
            _applied(seen, part.to_arrow().to_pylist())
            assert part.snapshot_id is not None
            if part.snapshot_id in states:
                assert seen == states[part.snapshot_id]
        assert seen == _shown(rows)
        queried: dict[int, dict[str, object]] = {}
        _applied(queried, guarded.changes().to_arrow().to_pylist())
        assert queried == seen


@pytest.fixture
def changed(tmp_path: Path) -> Table:
    """Return a table whose second snapshot moves rows over the bounds of the filter."""
    table = _made(tmp_path, "lookup")
    table.upsert([_row(1, 9), _row(2, 1), _row(3, 8), _row(4, 2)])
    table.upsert([_row(1, 2), _row(2, 7), _row(3, 6), _row(4, 3)])
    return table


def _kinds(rows: Any) -> list[tuple[int, int, int, str]]:
    return [(row["_row_kind"], row["id"], row["amount"], row["phone"]) for row in rows.to_arrow().to_pylist()]


def test_updates_over_the_bounds_of_the_filter_are_deletions_and_insertions(changed: Table) -> None:
    newest = changed.latest_snapshot()
    assert newest is not None
    shown = [(DELETE, 1, 9, "*c9"), (INSERT, 2, 7, "*c7"), (BEFORE, 3, 8, "*c8"), (AFTER, 3, 6, "*c6")]
    table = _guarded(changed)
    assert [row for row in _kinds(table.changes()) if row[:2] != (INSERT, 1)][-4:] == shown
    by_mask = [row for row in _kinds(table.changes(filter="phone = '*c9'")) if row[0] == DELETE]
    assert by_mask == shown[:1]
    assert _kinds(table.changes(filter="phone = '19' OR phone = '27'")) == []
    columns = table.changes(columns=["phone"]).to_arrow()
    assert columns.column_names == ["phone", "_row_kind"]
    assert columns["phone"].to_pylist()[-4:] == ["*c9", "*c7", "*c8", "*c6"]
    with pytest.raises(InvalidInputError, match="nothing"):
        table.changes(columns=["nothing"])


def test_masks_alone_change_no_kinds(changed: Table) -> None:
    raw, masked = changed.changes().to_arrow().to_pylist(), _guarded(changed, condition=None).changes()
    assert masked.to_arrow().to_pylist() == [{**row, "phone": f"*{row['city']}"} for row in raw]


@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_filter_needs_the_rows_before_updates(tmp_path: Path, producer: str) -> None:
    table = _made(tmp_path, producer)
    table.upsert([_row(1, 9)])
    for read in (_guarded(table).changes(), next(iter(_guarded(table).stream(from_snapshot=1, idle_seconds=0)))):
        with pytest.raises(NotSupportedError, match="lack the rows before updates"):
            read.to_arrow()
    assert _kinds(_guarded(table, condition=None).changes()) == [(INSERT, 1, 9, "*c9")]


@pytest.mark.parametrize("mode", ["delta", "diff"])
def test_a_filter_needs_the_changelog(changed: Table, mode: str) -> None:
    with pytest.raises(NotSupportedError, match="no comparison or new files as the source"):
        _guarded(changed).changes(mode=mode).to_arrow()


def test_rows_of_a_table_without_a_key_are_filtered_and_masked(tmp_path: Path) -> None:
    table = _made(tmp_path, keyed=False)
    table.append([_row(1, 9), _row(2, 1)])
    table.append([_row(3, 8)])
    shown = [(INSERT, 1, 9, "*c9"), (INSERT, 3, 8, "*c8")]
    assert _kinds(_guarded(table).changes()) == shown
    parts = list(_guarded(table).stream(from_snapshot=1, idle_seconds=0))
    assert [row for part in parts for row in _kinds(part)] == shown


def test_the_policies_are_asked_for_with_each_part_of_a_stream(changed: Table) -> None:
    fields = changed.schema.fields
    conditions = ["amount > 100"]

    def rules(_branch: str, _columns: Sequence[str]) -> RowRules:
        return RowRules(filters=[filter_to_paimon(parse_filter(each, fields), fields) for each in conditions])

    stream = iter(GuardedTable(changed, rules).stream(from_snapshot=1, idle_seconds=0))
    assert next(stream).to_arrow().num_rows == 0
    conditions[:] = ["amount = 6"]
    assert [row["id"] for part in stream for row in part.to_arrow().to_pylist()] == [3]


# -- the audit log and the binlog --------------------------------------------------------------------------------------


def _audited(rows: Any) -> list[tuple[str, object, object, object]]:
    return [(row["rowkind"], row["id"], row["amount"], row["phone"]) for row in rows.to_arrow().to_pylist()]


MOVED = [("-D", 1, 9, "*c9"), ("+I", 2, 7, "*c7"), ("-U", 3, 8, "*c8"), ("+U", 3, 6, "*c6")]
"""The second snapshot of `changed`, as the filter shows it."""


@pytest.mark.parametrize("compacted", [False, True])
def test_the_audit_log_shows_updates_over_the_bounds_of_the_filter(changed: Table, *, compacted: bool) -> None:
    if compacted:
        changed.compact(full=True)
    first, newest = (number for number in (1, changed.latest_snapshot().id))  # type: ignore[union-attr]
    view = _guarded(changed).change_view("audit_log")
    between = view.copy({"incremental-between": f"{first},{newest}"})
    assert _audited(between.scan())[-4:] == MOVED
    assert _audited(between.scan(filter="rowkind = '-D'")) == [MOVED[0]]
    assert _audited(between.scan(filter="phone = '*c7'")) == [MOVED[1]]
    assert _audited(between.scan(filter="phone = '19' OR phone = '12'")) == []
    assert between.scan(["phone"], limit=2).to_arrow().column_names == ["phone"]
    streamed = [row for part in view.stream(from_snapshot=1, idle_seconds=0) for row in _audited(part)]
    assert streamed[-4:] == MOVED
    assert all(isinstance(amount, int) and amount > 4 for _, _, amount, _ in streamed)


def test_the_binlog_pairs_shown_updates_alone(changed: Table) -> None:
    view = _guarded(changed).change_view("binlog").copy({"incremental-between": "1,3"})
    newest = changed.latest_snapshot()
    assert newest is not None
    view = _guarded(changed).change_view("binlog").copy({"incremental-between": f"1,{newest.id}"})
    assert _audited(view.scan())[-3:] == [
        ("-D", [1], [9], ["*c9"]),
        ("+I", [2], [7], ["*c7"]),
        ("+U", [3, 3], [8, 6], ["*c8", "*c6"]),
    ]


@pytest.mark.parametrize("kind", ["audit_log", "binlog"])
def test_a_snapshot_of_a_keyed_table_is_refused_under_a_filter(changed: Table, kind: str) -> None:
    with pytest.raises(NotSupportedError, match="deleted keys without the rows before"):
        _guarded(changed).change_view(kind).scan().to_arrow()
    masked = _guarded(changed, condition=None).change_view(kind).scan().to_arrow().to_pylist()
    raw = {row["id"]: row for row in changed.to_arrow().to_pylist()}
    assert len(masked) == len(raw)
    assert not {row["phone"] for row in raw.values()} & {str(row["phone"]) for row in masked}


@pytest.mark.parametrize("producer", ["none", "input"])
def test_an_audit_log_without_rows_before_updates_is_refused_under_a_filter(tmp_path: Path, producer: str) -> None:
    table = _made(tmp_path, producer)
    table.upsert([_row(1, 9)])
    with pytest.raises(NotSupportedError, match="lack the rows before updates"):
        _guarded(table).change_view("audit_log").scan().to_arrow()


@pytest.mark.parametrize("mode", ["delta", "diff"])
def test_an_audit_log_of_another_source_is_refused_under_a_filter(changed: Table, mode: str) -> None:
    options = {"incremental-between": "1,2", "incremental-between-scan-mode": mode}
    with pytest.raises(NotSupportedError, match="lack the rows before updates"):
        _guarded(changed).change_view("audit_log").copy(options).scan().to_arrow()


def test_the_audit_log_of_a_table_without_a_key(tmp_path: Path) -> None:
    table = _made(tmp_path, keyed=False)
    table.append([_row(1, 9), _row(2, 1)])
    table.append([_row(3, 8)])
    view = _guarded(table).change_view("audit_log")
    assert _audited(view.scan()) == [("+I", 1, 9, "*c9"), ("+I", 3, 8, "*c8")]
    assert _audited(view.scan(snapshot_id=1)) == [("+I", 1, 9, "*c9")]
    assert view.field_names == ["rowkind", "id", "amount", "phone", "city"]


def test_other_ways_to_read_the_audit_log_are_refused_by_name(changed: Table) -> None:
    view = _guarded(changed).change_view("audit_log")
    for name in ("store", "new_read_builder", "packed"):
        with pytest.raises(NotSupportedError, match=f"{name}.*would not keep to them"):
            getattr(view, name)
    with pytest.raises(NotSupportedError, match="sequence numbers would count hidden"):
        view.copy({"table-read.sequence-number.enabled": "true"})
