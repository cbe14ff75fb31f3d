"""Paths of a table's files, against the directories that Java Paimon created."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.row.binary_row import decode_row, encode_row
from interbed.storage.base.types.data_type import type_from_json
from interbed.storage.meta.manifest.manifest_file import read_manifest
from interbed.storage.meta.paths import TablePaths, escape_path, unescape_path
from interbed.storage.meta.schema.table_schema import TableSchema
from tests.golden.load import TABLE_NAMES, table_path

STRING = type_from_json("STRING")
INT = type_from_json("INT")
DATE = type_from_json("DATE")


def _golden_paths(name: str) -> tuple[Path, TablePaths]:
    root = table_path(name)
    schemas = sorted((root / "schema").iterdir(), key=lambda p: int(p.name.removeprefix("schema-")))
    schema = TableSchema.from_json(schemas[-1].read_bytes())
    core = schema.core
    types = schema.partition_types
    names = schema.partition_keys
    return root, TablePaths(str(root), names, types, core.partition_default_name, core.partition_legacy_name)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_data_file_of_java_has_the_path_that_the_manifests_name(name: str) -> None:
    root, paths = _golden_paths(name)
    manifests = [p for p in (root / "manifest").iterdir() if not p.name.startswith(("manifest-list", "index"))]
    assert manifests
    for manifest in manifests:
        for entry in read_manifest(manifest.read_bytes(), source=str(manifest)):
            directory = paths.bucket_directory(entry.bucket_id)
            assert (Path(directory) / entry.file.file_name).is_file()


@pytest.mark.parametrize("name", ["typed_partitions", "typed_partitions_legacy", "odd_partitions"])
def test_a_partition_can_be_parsed_from_the_name_of_its_directory(name: str) -> None:
    root, paths = _golden_paths(name)
    for manifest in (root / "manifest").glob("manifest-*-0"):
        if manifest.name.startswith("manifest-list"):
            continue
        for entry in read_manifest(manifest.read_bytes(), source=str(manifest)):
            spec = dict(paths.partition_spec(entry.partition))
            values = decode_row(entry.partition, paths.partition_types)
            assert decode_row(paths.parse_partition_spec(spec), paths.partition_types) == values
            # A null, an empty and a blank string share a directory; its name is parsed as null.
            shared = tuple(None if isinstance(v, str) and not v.strip() else v for v in values)
            directory = paths.directory_spec(entry.partition)
            assert decode_row(paths.parse_partition_spec(directory), paths.partition_types) == shared


def test_metadata_has_its_own_directories() -> None:
    paths = TablePaths("/lake/db.db/t/")
    assert paths.snapshot(3) == "/lake/db.db/t/snapshot/snapshot-3"
    assert paths.latest_hint == "/lake/db.db/t/snapshot/LATEST"
    assert paths.earliest_hint == "/lake/db.db/t/snapshot/EARLIEST"
    assert paths.schema(0) == "/lake/db.db/t/schema/schema-0"
    assert paths.manifest("m") == "/lake/db.db/t/manifest/m"
    assert paths.index("i") == "/lake/db.db/t/index/i"
    assert paths.statistics("s") == "/lake/db.db/t/statistics/s"
    assert TablePaths("s3://bucket/t").snapshot(1) == "s3://bucket/t/snapshot/snapshot-1"


def test_an_unpartitioned_table_has_its_buckets_at_its_root() -> None:
    paths = TablePaths("/t")
    nothing = paths.parse_partition_spec({})
    assert paths.partition_directory(nothing) == ""
    assert paths.bucket_directory(BucketId(nothing, 7)) == "/t/bucket-7"
    assert paths.bucket_directory(BucketId(nothing, -2)) == "/t/bucket-postpone"


def test_partition_values_may_be_text_or_python_values() -> None:
    paths = TablePaths("/t", ["dt", "h"], [DATE, INT], "NONE")
    expected = paths.parse_partition_spec({"dt": decode_row(encode_row([19782], [DATE]), [DATE])[0], "h": 1})
    assert paths.parse_partition_spec({"h": "1", "dt": "2024-02-29"}) == expected
    assert paths.parse_partition_spec({"h": "1", "dt": "19782"}) == expected
    assert paths.partition_directory(expected) == "dt=19782/h=1"
    nulls = paths.parse_partition_spec({"h": None, "dt": "NONE"})
    assert paths.partition_directory(nulls) == "dt=NONE/h=NONE"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"dt": "2024-01-01"}, "lacks the column 'h'"),
        ({"dt": "2024-01-01", "h": 1, "x": 1}, "'x' is not a partition column; they are dt, h"),
        (
            {"dt": "yesterday", "h": 1},
            "column 'dt' can't take the value given: 'yesterday' is not a value of type DATE",
        ),
        ({"dt": "2024-13-01", "h": 1}, "column 'dt'"),
        ({"dt": "2024-01-01", "h": 2**31}, "column 'h'"),
        ({"dt": "2024-01-01", "h": 1.5}, "column 'h'"),
    ],
)
def test_the_error_of_an_invalid_specification_names_the_column(spec: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        TablePaths("/t", ["dt", "h"], [DATE, INT]).parse_partition_spec(spec)


def test_a_binary_partition_has_no_legacy_name() -> None:
    data_type = type_from_json("BYTES")
    partition = encode_row([b"ab"], [data_type])
    with pytest.raises(NotSupportedError, match=r"partition.legacy-name"):
        TablePaths("/t", ["b"], [data_type]).partition_directory(partition)
    assert TablePaths("/t", ["b"], [data_type], legacy=False).partition_directory(partition) == "b=ab"


@settings(deadline=None)
@given(st.text())
def test_escaped_text_is_one_path_component_and_survives_the_round_trip(text: str) -> None:
    escaped = escape_path(text)
    assert "/" not in escaped
    assert unescape_path(escaped) == text


@settings(deadline=None)
@given(st.none() | st.text())
def test_a_text_partition_keeps_its_directory_through_its_specification(value: str | None) -> None:
    paths = TablePaths("/t", ["p"], [STRING])
    partition = encode_row([value], [STRING])
    directory = paths.partition_directory(partition)
    assert directory.startswith("p=")
    assert directory.count("/") == 0
    again = paths.parse_partition_spec({"p": unescape_path(directory.removeprefix("p="))})
    assert paths.partition_directory(again) == directory


def test_new_file_names_are_unique() -> None:
    paths = TablePaths("/t")
    names = [paths.new_manifest_name() for _ in range(50)] + [
        paths.new_data_file_name("data-", "orc") for _ in range(50)
    ]
    assert len(set(names)) == 100
    assert names[-1].startswith("data-")
    assert names[-1].endswith(".orc")
    assert paths.new_manifest_list_name().startswith("manifest-list-")
    assert paths.new_index_manifest_name().startswith("index-manifest-")
