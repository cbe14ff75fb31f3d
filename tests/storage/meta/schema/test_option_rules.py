"""Options that contradict each other, the keys or the columns, as tables of cases."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.meta.schema.change import DropColumn, RemoveOption, RenameColumn, SetOption
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.option_rules import changed_schema, check_options
from tests.storage.meta.schema.option_cases import CASES, COLUMNS, OptionCase
from tests.support.peers.interbed import fields_of


def schema(
    options: Mapping[str, str] | None = None, keys: Sequence[str] = ("id",), partitions: Sequence[str] = ()
) -> TableSchema:
    return Schema(
        fields=fields_of(COLUMNS), primary_keys=tuple(keys), partition_keys=tuple(partitions), options=options or {}
    ).to_table_schema(time_millis=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_contradictory_options_are_refused_with_the_reason(case: OptionCase) -> None:
    def make() -> None:
        check_options(schema(case.options, case.keys, case.partitions))

    if case.refused is None:
        make()
        return
    with pytest.raises((InvalidInputError, NotSupportedError)) as refusal:
        make()
    assert str(refusal.value).startswith(case.refused)


def test_a_change_of_the_schema_follows_the_same_rules() -> None:
    table = schema({"changelog-producer": "full-compaction"})
    with pytest.raises(InvalidOptionError, match="full-compaction'; use 'lookup'"):
        changed_schema(table, [SetOption("deletion-vectors.enabled", "true")], has_snapshots=False)
    changed = changed_schema(
        table,
        [SetOption("deletion-vectors.enabled", "true"), SetOption("changelog-producer", "lookup")],
        has_snapshots=False,
    )
    assert changed.options == {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"}


@pytest.mark.parametrize("change", [SetOption("merge-engine", "aggregation"), RemoveOption("bucket-key")])
def test_options_that_files_depend_on_may_change_before_the_first_snapshot(change: SetOption | RemoveOption) -> None:
    table = schema({"bucket": "2", "bucket-key": "id"})
    with pytest.raises(InvalidOptionError, match="files depend on it"):
        changed_schema(table, [change])
    assert changed_schema(table, [change], has_snapshots=False).options != table.options


@pytest.mark.parametrize("key", ["path", "primary-key", "partition"])
def test_options_that_repeat_the_schema_cannot_be_changed(key: str) -> None:
    with pytest.raises(InvalidOptionError, match="make a new table"):
        changed_schema(schema(partitions=["a"]), [SetOption(key, "b")], has_snapshots=False)


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (
            {"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.fpp": "3"},
            "bloom-filter.a.*between 0 and 1",
        ),
        ({"dynamic-bucket.target-row-num": "0"}, "dynamic-bucket.target-row-num.*positive"),
        ({"changelog-producer.row-deduplicate-ignore-fields": "zz"}, "names the column .zz."),
    ],
)
def test_an_invalid_option_is_reported_when_the_table_is_created(options: dict[str, str], reported: str) -> None:
    with pytest.raises(InvalidOptionError, match=reported):
        check_options(schema(options))
    # Java Paimon finds the error when it writes; a table that it created can be altered.
    check_options(schema(options), before=schema(options))


def test_keys_can_be_added_to_a_table_without_keys_and_snapshots() -> None:
    plain = schema(keys=())
    changes = [SetOption("primary-key", "id, a"), SetOption("partition", "a"), SetOption("bucket", "2")]
    keyed = changed_schema(plain, changes, has_snapshots=False)
    assert (keyed.primary_keys, keyed.partition_keys, keyed.options) == (("id", "a"), ("a",), {"bucket": "2"})
    assert not keyed.by_name["a"].type.nullable
    assert changed_schema(keyed, [SetOption("primary-key", "id,a")]).primary_keys == ("id", "a")
    with pytest.raises(InvalidOptionError, match="make a new table"):
        changed_schema(plain, changes)
    with pytest.raises(InvalidInputError, match="'nope', which the table does not have"):
        changed_schema(plain, [SetOption("primary-key", "nope")], has_snapshots=False)


def test_dynamic_options_follow_the_rules_and_leave_the_table_as_it_is(tmp_path: Path) -> None:
    with interbed.load_catalog("lake", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("db")
        rows = pa.schema((pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.int32())))
        table = catalog.create_table("db.t", rows, primary_keys=["id"], options={"changelog-producer": "lookup"})
        for options, part in (
            ({"streaming-read-overwrite": "true"}, "'streaming-read-overwrite' can't be combined"),
            ({"sequence.field": "nope"}, "'nope', which the table lacks"),
            ({"deletion-vectors.enabled": "true"}, "can't be set dynamically"),
            ({"merge-engine": "aggregation"}, "can't be set dynamically"),
            ({"snapshot.num-retained.max": "1"}, "more than 'snapshot.num-retained.max', which is 1"),
        ):
            with pytest.raises(InvalidOptionError, match=part):
                table.copy(options)
        assert table.copy({"snapshot.num-retained.max": "20"}).options.snapshot_retain_max == 20
        assert catalog.get_table("db.t").schema.options == {"changelog-producer": "lookup"}


def test_a_renamed_column_is_renamed_in_all_options_that_name_it() -> None:
    options = {
        "merge-engine": "partial-update",
        "fields.g,h.sequence-group": "a,b",
        "fields.a.aggregate-function": "sum",
        "fields.at.stats-mode": "none",
        "partial-update.remove-record-on-sequence-group": "g,h",
        "file-index.bloom-filter.columns": "a,map[g],b",
        "file-index.bloom-filter.a.fpp": "0.01",
        "file-index.read.enabled": "true",
    }
    changed = changed_schema(
        schema(options), [RenameColumn("a", "a2"), RenameColumn("h", "i"), RenameColumn("map", "m")]
    )
    assert changed.options == {
        "merge-engine": "partial-update",
        "fields.g,i.sequence-group": "a2,b",
        "fields.a2.aggregate-function": "sum",
        "fields.at.stats-mode": "none",
        "partial-update.remove-record-on-sequence-group": "g,i",
        "file-index.bloom-filter.columns": "a2,m[g],b",
        "file-index.bloom-filter.a2.fpp": "0.01",
        "file-index.read.enabled": "true",
    }


def test_options_follow_a_renamed_column_with_dots(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), *(pa.field(n, pa.int64()) for n in ("a", "a.b"))])
    options = {
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.a.b.aggregate-function": "sum",
        "file-index.bloom-filter.columns": "a.b",
        "file-index.bloom-filter.a.b.items": "100",
    }
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", columns, primary_keys=["id"], options=options)
    table.upsert([{"id": 1, "a.b": 1}])
    for name, new_name in (("a.b", "c"), ("c", "x.y.z"), ("a", "b")):
        with table.update_schema() as update:
            update.rename_column(name, new_name)
        last = "x.y.z" if "x.y.z" in table.field_names else "c"
        table.upsert([{"id": 1, last: 1}])
    assert table.scan(columns=["x.y.z"]).to_arrow().to_pylist() == [{"x.y.z": 4}]
    assert {key: value for key, value in table.schema.options.items() if "x.y.z" in f"{key}={value}"} == {
        "fields.x.y.z.aggregate-function": "sum",
        "file-index.bloom-filter.columns": "x.y.z",
        "file-index.bloom-filter.x.y.z.items": "100",
    }
    with pytest.raises(InvalidInputError, match=r"option 'fields\.x\.y\.z\.aggregate-function'"):
        changed_schema(table.schema, [DropColumn("x.y.z")])


def test_an_aggregate_function_is_of_one_column() -> None:
    options = {"merge-engine": "aggregation", "fields.a,b.aggregate-function": "sum"}
    with pytest.raises(InvalidOptionError, match="names the column 'a,b', which the table lacks"):
        check_options(schema(options))


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"sequence.field": "a"}, "sequence.field"),
        ({"sequence.field": "g, a"}, "sequence.field"),
        ({"fields.a.sequence-group": "b", "merge-engine": "partial-update"}, "fields.a.sequence-group"),
        ({"fields.g.sequence-group": "a", "merge-engine": "partial-update"}, "fields.g.sequence-group"),
        ({"file-index.bitmap.columns": "a"}, "file-index.bitmap.columns"),
    ],
)
def test_a_new_name_that_an_option_would_take_for_two_is_refused(options: dict[str, str], option: str) -> None:
    with pytest.raises(InvalidInputError, match=f"the option '{option}' names it, and ',' is no part of a name there"):
        changed_schema(schema(options), [RenameColumn("a", "b,g")])
    changed_schema(schema(options), [RenameColumn("d", "b,g")])


@pytest.mark.parametrize(
    ("column", "option"),
    [
        ("g", "fields.g,h.sequence-group"),
        ("b", "fields.g,h.sequence-group"),
        ("at", "record-level.time-field"),
        ("d", "file-index.bitmap.columns"),
        ("ok", "fields.ok.stats-mode"),
    ],
)
def test_a_column_that_an_option_names_is_not_dropped(column: str, option: str) -> None:
    options = {
        "merge-engine": "partial-update",
        "fields.g,h.sequence-group": "a,b",
        "record-level.time-field": "at",
        "file-index.bitmap.columns": "d",
        "fields.ok.stats-mode": "none",
    }
    with pytest.raises(InvalidInputError, match=f"'{column}' can't be dropped: option '{option}' names it"):
        changed_schema(schema(options), [DropColumn(column)])
    assert column not in changed_schema(schema(), [DropColumn(column)]).by_name
