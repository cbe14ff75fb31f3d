"""Options that are honoured, harmless or refused; misspelt keys, families of options, and user-defined properties."""

import ast
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from interbed.catalog.client.options import KNOWN as OF_CATALOGS
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.meta.options.known.check import (
    KNOWN,
    check_names,
    check_supported,
    family_of,
    is_own,
    judged,
    known_option,
)
from interbed.storage.meta.options.known.honoured import HONOURED, OWN
from interbed.storage.meta.options.known.refused import BlockedUse, OptionStatus
from interbed.storage.meta.schema.change import RemoveOption, SetOption
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.opening import schema_manager
from interbed.storage.table.table import Table, load_table
from tests.support.option_table import table_options
from tests.support.packages import source_files
from tests.support.source_trees import source_tree

SCHEMA = pa.schema((pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string())))

SLIPS = {
    "primary-keys": "primary-key",
    "chnagelog-producer": "changelog-producer",
    "scan.snapshot-idd": "scan.snapshot-id",
    "merge_engine": "merge-engine",
    "buckets": "bucket",
    "mergeEngine": "merge-engine",
    "fields.v.agregate-function": "fields.v.aggregate-function",
    "compaction.size-ration": "compaction.size-ratio",
    "snapshot.retained.max": "snapshot.num-retained.max",
    "self-optimising.enabled": "self-optimizing.enabled",
    "self-optimizing.enable": "self-optimizing.enabled",
    "self-optimizing.minor.trigger.filecount": "self-optimizing.minor.trigger.file-count",
}
OF_A_FAMILY = (
    "scan.zzzzz",
    "fields.v.zzzzzzzzzz",
    "sink.qqqqqq",
    "tag.wwwwwwww",
    "metadata.stats-xxxxxxxxx",
    "self-optimising.zzzzzzz",
)
NOBODYS = ("team", "data.owner", "quality.level", "my.changelog-producer", "cost-centre", "pipeline", "x")
NOTES = (
    *("owner", "comment", "provider", "location", "external", "EXTERNAL", "is_managed_location", "connector"),
    *("transient_lastDdlTime", "spark.sql.create.version", "schema.0.name", "interbed.replaces", "numFiles"),
    *("partition.retention.period", "external.table.purge"),
)

WITHOUT_EFFECT = {
    "chain-table.enabled": "true",
    "scan.primary-branch": "other",
    "clustering.incremental": "true",
    "pk-btree.index.columns": "v",
    "commit.callbacks": "com.example.Call",
    "query-auth.enabled": "true",
    "metastore.tag-to-partition": "dt",
}
DEFAULTS = {
    "chain-table.enabled": "false",
    "query-auth.enabled": "FALSE",
    "clustering.incremental": "false",
    "commit.callbacks": "",
    "metadata.iceberg.storage": "disabled",
}


def table(tmp_path: Path, options: Mapping[str, str] | None = None, name: str = "t") -> Table:
    schema = Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options=dict(options or {}))
    schema_manager(str(tmp_path / name)).create_table(schema)
    return load_table(str(tmp_path / name))


def appending(path: Path, options: Mapping[str, str] | None = None) -> Path:
    """A table without a key, for options that only such tables have."""
    schema_manager(str(path)).create_table(Schema.from_pyarrow_schema(SCHEMA, options=dict(options or {})))
    return path


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "v": ["a"] * len(ids)}, schema=SCHEMA)


def foreign(tmp_path: Path, options: Mapping[str, str]) -> Table:
    """A table with a row, for which another engine has set options that interbed would refuse."""
    table(tmp_path).upsert(rows(1))
    path = tmp_path / "t" / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"].update(options)
    path.write_text(json.dumps(schema))
    return load_table(str(tmp_path / "t"))


@pytest.mark.parametrize(("slip", "meant"), SLIPS.items())
def test_a_misspelt_key_is_refused_at_creation_with_a_suggestion(tmp_path: Path, slip: str, meant: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"no option '{slip}'\. Did you mean '{meant}'\?"):
        table(tmp_path, {slip: "1"})
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").rglob("schema-*"))


@pytest.mark.parametrize("key", OF_A_FAMILY)
def test_an_unknown_key_of_a_family_is_refused(key: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"no option '{key}'.*Names that begin with"):
        check_names({key: "1"})


@pytest.mark.parametrize("key", [*NOBODYS, *NOTES])
def test_any_other_key_is_stored(tmp_path: Path, key: str) -> None:
    made = table(tmp_path, {key: "anything"})
    assert made.schema.options[key] == "anything"
    assert is_own(key) == (key in NOBODYS)


@pytest.mark.parametrize(("key", "value"), WITHOUT_EFFECT.items())
def test_an_unsupported_option_is_refused_with_an_alternative(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(NotSupportedError, match=rf"Option '{key}' = '{value}' is not supported: .+; .+\."):
        appending(tmp_path / "t", {key: value})
    made = load_table(str(appending(tmp_path / "plain")))
    with pytest.raises(NotSupportedError, match=key):
        made.store.alter([SetOption(key, value)])
    with pytest.raises(NotSupportedError, match=key):
        made.copy({key: value})
    with pytest.raises(NotSupportedError, match=key):
        load_table(str(tmp_path / "plain"), options={key: value})


@pytest.mark.parametrize("slip", ["scan.snapshot-idd", "write-onyl"])
def test_a_misspelt_key_is_refused_in_changes_and_as_a_dynamic_option(tmp_path: Path, slip: str) -> None:
    made = table(tmp_path)
    with pytest.raises(InvalidOptionError, match=slip):
        made.store.alter([SetOption(slip, "1")])
    with pytest.raises(InvalidOptionError, match=slip):
        made.copy({slip: "1"})
    with pytest.raises(InvalidOptionError, match=slip):
        load_table(str(tmp_path / "t"), options={slip: "1"})


@pytest.mark.parametrize(("key", "value"), DEFAULTS.items())
def test_the_default_of_a_refused_option_is_harmless(tmp_path: Path, key: str, value: str) -> None:
    assert table(tmp_path, {key: value}).schema.options[key] == value


@pytest.mark.parametrize(
    ("key", "value"), [("chain-table.enabled", "true"), ("query-auth.enabled", "true"), ("scan.primary-branch", "b")]
)
def test_a_foreign_table_that_would_be_misread_is_not_read(tmp_path: Path, key: str, value: str) -> None:
    theirs = foreign(tmp_path, {key: value})
    with pytest.raises(NotSupportedError, match=f"can't be read. Option '{key}'"):
        theirs.scan().to_arrow()
    with pytest.raises(NotSupportedError, match=f"can't be written. Option '{key}'"):
        theirs.upsert(rows(2))


@pytest.mark.parametrize(
    ("key", "value", "without"),
    [("commit.callbacks", "com.example.Call", "")],
)
def test_a_foreign_table_whose_options_oblige_writers_is_read_only(
    tmp_path: Path, key: str, value: str, without: str
) -> None:
    theirs = foreign(tmp_path, {key: value})
    assert theirs.scan().to_arrow().num_rows == 1
    with pytest.raises(NotSupportedError, match=f"can't be written. Option '{key}'"):
        theirs.upsert(rows(2))
    theirs.copy({key: without}).upsert(rows(2))
    assert theirs.scan().to_arrow().num_rows == 2


def test_options_without_effect_in_a_foreign_table_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = foreign(tmp_path, {"chnagelog-producer": "lookup", "clustering.columns": "v", "team": "lake"})
    with caplog.at_level(logging.WARNING, "interbed.storage.scan.support"):
        for _ in range(3):
            assert theirs.scan().to_arrow().num_rows == 1
    assert len(caplog.messages) == 2
    assert "Did you mean 'changelog-producer'?" in caplog.text
    assert "'clustering.columns' = 'v'" in caplog.text


def test_unsupported_options_of_a_foreign_table_can_be_removed(tmp_path: Path) -> None:
    theirs = foreign(tmp_path, {"chain-table.enabled": "true", "chnagelog-producer": "lookup"})
    theirs.store.alter([SetOption("write-only", "true")])
    theirs.store.alter([RemoveOption("chain-table.enabled"), RemoveOption("chnagelog-producer")])
    assert load_table(str(tmp_path / "t")).scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("option", ["aggregation.remove-record-on-delete", "overwrite-upgrade", "lookup-wait"])
def test_an_invalid_value_is_refused_wherever_it_is_read(tmp_path: Path, option: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"'{option}' takes true or false, not 'maybe'"):
        table(tmp_path, {option: "maybe"})


@pytest.mark.parametrize("value", ["nosuch", "success-file,nosuch", "", "success-file,", "success file"])
def test_an_unknown_member_of_a_list_is_refused_at_creation_in_changes_and_copies(tmp_path: Path, value: str) -> None:
    key = "partition.mark-done-action"
    wrong = value.split(",")[-1]
    message = f"'{key}' lists some of success-file, done-partition, .*, not '{wrong}'"
    with pytest.raises(InvalidOptionError, match=message):
        table(tmp_path, {key: value})
    made = table(tmp_path / "good", {key: "Success-File, done-partition"})
    with pytest.raises(InvalidOptionError, match=message):
        made.store.alter([SetOption(key, value)])
    with pytest.raises(InvalidOptionError, match=message):
        made.copy({key: value})


def test_a_target_of_zero_rows_per_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="'target-file-row-num' is 0; a file has at least 1 row"):
        table(tmp_path, {"target-file-row-num": "0"})


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_a_changelog_needs_a_key_at_creation_in_changes_and_as_a_dynamic_option(tmp_path: Path, producer: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"'changelog-producer'.*needs a primary key"):
        appending(tmp_path / "t", {"changelog-producer": producer})
    made = load_table(str(appending(tmp_path / "plain")))
    with pytest.raises(InvalidOptionError, match=r"'changelog-producer'.*needs a primary key"):
        made.store.alter([SetOption("changelog-producer", producer)])
    with pytest.raises(InvalidOptionError, match=r"'changelog-producer'.*needs a primary key"):
        made.copy({"changelog-producer": producer})


def test_every_option_has_one_status_and_a_reason() -> None:
    keys = [option.key for option in KNOWN]
    assert len(keys) == len(set(keys))
    for option in KNOWN:
        assert bool(option.why) == (option.status is not OptionStatus.HONOURED), option.key
        assert option.status is OptionStatus.REFUSED or option.blocks is BlockedUse.NOTHING, option.key
        assert not option.why.endswith("."), option.key


def test_every_message_about_an_option_names_its_key() -> None:
    for option in KNOWN:
        key = option.key.replace("<column>", "v").replace("<…>", "x")
        if option.status is OptionStatus.REFUSED:
            with pytest.raises(NotSupportedError, match=f"^Option '{key}' = 'zzz' is not supported"):
                check_supported({key: "zzz"})
        else:
            check_supported({key: "zzz"})
        check_names({key: "zzz"})


def strings_of_the_code() -> Iterator[str]:
    for path in source_files():
        if "known" in path.parts:
            continue
        for node in ast.walk(source_tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


READERS = frozenset({"text", "boolean", "integer", "number", "memory", "duration_millis", "names", "choice", "get"})


def keys_that_are_read() -> Iterator[str]:
    """Yield the keys in calls such as `options.boolean("overwrite-upgrade", True)`."""
    for path in source_files():
        for node in ast.walk(source_tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
                for key in node.args[:1]:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value


def test_each_honoured_option_is_read_somewhere() -> None:
    found = set(strings_of_the_code())
    honoured = {key for keys in (*HONOURED.values(), OWN) for key in keys}
    plain = {key for key in honoured if "<" not in key}
    assert sorted(plain - found) == []
    # Options of single columns: in the code, their last part follows the column's name.
    tails = {key.rpartition(".")[2] for key in honoured - plain if not key.endswith(">")}
    assert sorted(tail for tail in tails if not any(text.endswith(tail) for text in found)) == []


def test_each_option_that_the_code_reads_is_honoured() -> None:
    listed = {row.key for row in table_options()}
    own = {"commit.sync", "read.verify-checksums", "stream.epoch-note.time-retained"}
    own |= {f"self-optimizing.{key}" for key in ("max-read-amplification", "order-by", "order-strategy")}
    assert own < set(OWN)
    assert listed == {key for keys in HONOURED.values() for key in keys} | own
    # Keys of hive-site.xml are no options, and those of catalogs are none of tables.
    others = OF_CATALOGS | {k for k in keys_that_are_read() if k.startswith("metastore.thrift.")}
    read = {k for k in keys_that_are_read() if family_of(k) is not None and k not in others}
    assert len(read) > 20
    assert sorted(key for key in read if known_option(key) is None) == []


def test_options_with_the_names_of_families_are_known() -> None:
    assert known_option("fields.a.b.sequence-group") is not None
    assert known_option("file-index.bloom-filter.columns") is not None
    assert known_option("file-index.range-bitmap.v.chunk-size") is not None
    assert known_option("metadata.iceberg.rest.uri") is not None
    assert judged({}).reading is None
