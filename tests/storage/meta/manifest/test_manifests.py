"""Manifests, manifest lists and index manifests: round trips, and files of older, newer and damaged versions."""

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.avro.records import read_records
from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, UnsupportedVersionError
from interbed.storage.base.row.binary_row import decode_row, encode_row
from interbed.storage.base.types.data_type import type_from_json
from interbed.storage.meta.manifest import index_manifest, manifest_file
from interbed.storage.meta.manifest.entry import (
    EMPTY_STATS,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from interbed.storage.meta.manifest.index_manifest import (
    DeletionVectorRange,
    GlobalIndexMeta,
    IndexFileMeta,
    IndexManifestEntry,
    index_file_from_json,
    index_file_to_json,
    read_index_manifest,
    write_index_manifest,
)
from interbed.storage.meta.manifest.manifest_file import (
    make_meta,
    read_manifest,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from interbed.storage.meta.schema.table_schema import TableSchema
from tests.golden.load import TABLE_NAMES, expected, table_path

_LONG = st.integers(-(2**63), 2**63 - 1)
_COUNT = st.integers(0, 2**63 - 1)
_INT = st.integers(-(2**31), 2**31 - 1)
_NAME = st.text(max_size=12)
_NAMES = st.lists(_NAME, max_size=3).map(tuple)
_ROW = st.binary(max_size=30)
_STATS = st.builds(
    SimpleStats, min_values=_ROW, max_values=_ROW, null_counts=st.lists(st.none() | _COUNT, max_size=3).map(tuple)
)
_FILE = st.builds(
    DataFileMeta,
    file_name=_NAME,
    file_size=_COUNT,
    row_count=_COUNT,
    min_key=_ROW,
    max_key=_ROW,
    key_stats=_STATS,
    value_stats=_STATS,
    min_sequence_number=_LONG,
    max_sequence_number=_LONG,
    schema_id=_COUNT,
    level=st.integers(0, 10),
    extra_files=_NAMES,
    # ORC timestamps are read as nanoseconds, whose range ends in 2262.
    creation_time_millis=st.integers(0, 2**63 // 10**6 - 1),
    delete_row_count=st.none() | _COUNT,
    embedded_file_index=st.none() | st.binary(max_size=9),
    file_source=st.none() | st.sampled_from(FileSource),
    value_stats_cols=st.none() | _NAMES,
    external_path=st.none() | _NAME,
    first_row_id=st.none() | _COUNT,
    write_cols=st.none() | _NAMES,
)
_ENTRY = st.builds(
    ManifestEntry, kind=st.sampled_from(FileKind), partition=_ROW, bucket=_INT, total_buckets=_INT, file=_FILE
)
_META = st.builds(
    ManifestFileMeta,
    file_name=_NAME,
    file_size=_COUNT,
    num_added_files=_COUNT,
    num_deleted_files=_COUNT,
    partition_stats=_STATS,
    schema_id=_COUNT,
    min_bucket=st.none() | _INT,
    max_bucket=st.none() | _INT,
    min_level=st.none() | _INT,
    max_level=st.none() | _INT,
    min_row_id=st.none() | _LONG,
    max_row_id=st.none() | _LONG,
)
_INDEX_FILE = st.builds(
    IndexFileMeta,
    index_type=_NAME,
    file_name=_NAME,
    file_size=_COUNT,
    row_count=_COUNT,
    deletion_vectors=st.none()
    | st.lists(
        st.builds(DeletionVectorRange, data_file_name=_NAME, offset=_INT, length=_INT, cardinality=st.none() | _COUNT),
        max_size=3,
    ).map(tuple),
    external_path=st.none() | _NAME,
    global_index=st.none()
    | st.builds(
        GlobalIndexMeta,
        row_range_start=_LONG,
        row_range_end=_LONG,
        index_field_id=_INT,
        extra_field_ids=st.none() | st.lists(_INT, max_size=3).map(tuple),
        index_meta=st.none() | _ROW,
        source_meta=st.none() | _ROW,
    ),
)
_INDEX = st.builds(
    IndexManifestEntry,
    kind=st.sampled_from(FileKind),
    partition=_ROW,
    bucket=_INT,
    file=_INDEX_FILE,
)
FORMS = [
    *(("avro", codec) for codec in ("zstd", "none", "deflate")),
    *(("parquet", codec) for codec in ("zstd", "none", "snappy", "lz4")),
    *(("orc", codec) for codec in ("zstd", "none", "snappy", "zlib")),
]
"""Formats of manifests with some of their codecs."""
_FORM = st.sampled_from(FORMS)


@settings(deadline=None)
@given(st.lists(_ENTRY, max_size=4), _FORM)
def test_entries_survive_the_round_trip_through_a_manifest(entries: list[ManifestEntry], form: tuple[str, str]) -> None:
    file_format, codec = form
    assert read_manifest(write_manifest(entries, codec, file_format), source="m") == entries


@settings(deadline=None)
@given(st.lists(_META, max_size=4), _FORM)
def test_manifests_survive_the_round_trip_through_a_manifest_list(
    metas: list[ManifestFileMeta], form: tuple[str, str]
) -> None:
    file_format, codec = form
    assert read_manifest_list(write_manifest_list(metas, codec, file_format), source="l") == metas


@settings(deadline=None)
@given(st.lists(_INDEX, max_size=4), _FORM)
def test_index_files_survive_the_round_trip_through_an_index_manifest(
    entries: list[IndexManifestEntry], form: tuple[str, str]
) -> None:
    file_format, codec = form
    assert read_index_manifest(write_index_manifest(entries, codec, file_format), source="i") == entries
    assert [index_file_from_json(json.loads(json.dumps(index_file_to_json(e.file)))) for e in entries] == [
        e.file for e in entries
    ]


@pytest.mark.parametrize("file_format", ["avro", "parquet", "orc"])
def test_an_unknown_codec_is_refused(file_format: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"'manifest.compression' takes one of .*zstd.*, not 'rar'"):
        write_manifest_list([], "rar", file_format)


# -- other writers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_manifests_of_java_list_the_files_that_java_plans(name: str) -> None:
    directory = table_path(name) / "manifest"
    files = {}
    for path in directory.glob("manifest-list-*"):
        for meta in read_manifest_list(path.read_bytes(), source=path.name):
            content = (directory / meta.file_name).read_bytes()
            assert meta.file_size == len(content)
            entries = read_manifest(content, source=meta.file_name)
            assert sum(e.kind is FileKind.ADD for e in entries) == meta.num_added_files
            files.update({(e.file.file_name, e.file.level): e for e in entries if e.kind is FileKind.ADD})
    for split in expected(name)["plan"]:
        for planned in split["files"]:
            entry = files[planned["file_name"], planned["level"]]
            assert entry.bucket == split["bucket"]
            for member in ("file_size", "row_count", "schema_id", "delete_row_count"):
                assert getattr(entry.file, member) == planned[member]
            assert isinstance(entry.file.creation_time_millis, int)
            assert entry.file.creation_time_millis > 1_600_000_000_000
            assert entry.file.file_source is not None
            assert entry.file.file_source.name == planned["file_source"]


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_the_computed_metadata_of_a_manifest_equals_javas(name: str) -> None:
    root = table_path(name)
    schema = TableSchema.from_json((root / "schema" / "schema-0").read_bytes())
    for path in (root / "manifest").glob("manifest-list-*"):
        for meta in read_manifest_list(path.read_bytes(), source=path.name):
            entries = read_manifest((root / "manifest" / meta.file_name).read_bytes(), source=meta.file_name)
            assert make_meta(meta.file_name, meta.file_size, entries, meta.schema_id, schema.partition_types) == meta


def test_a_written_manifest_has_the_schema_of_java() -> None:
    directory = table_path("pk_all_types") / "manifest"
    for pattern, ours in [
        ("manifest-list-*", write_manifest_list([], "zstd")),
        ("manifest-[!l]*", write_manifest([], "zstd")),
    ]:
        theirs = next(directory.glob(pattern)).read_bytes()
        assert _schema_of(ours) == _schema_of(theirs)


def _schema_of(content: bytes) -> Any:
    reader = fastavro.reader(io.BytesIO(content))
    assert reader.codec == "zstandard"
    return reader.writer_schema


_ENTRY_VALUE = ManifestEntry(
    kind=FileKind.ADD,
    partition=encode_row([], []),
    bucket=1,
    total_buckets=2,
    file=DataFileMeta(
        file_name="data-1.parquet",
        file_size=10,
        row_count=3,
        min_sequence_number=0,
        max_sequence_number=2,
        schema_id=0,
        level=0,
        creation_time_millis=5,
        delete_row_count=0,
        file_source=FileSource.APPEND,
        first_row_id=7,
    ),
)


def _rewritten(content: bytes, change: Any, records: Any = lambda r: r) -> bytes:
    """Rewrite the Avro file with a changed schema and changed records."""
    reader = fastavro.reader(io.BytesIO(content))
    schema: Any = reader.writer_schema
    rows = [records(r) for r in reader]
    change(schema)
    target = io.BytesIO()
    fastavro.writer(target, {k: v for k, v in schema.items() if not k.startswith("__")}, rows, codec="deflate")
    return target.getvalue()


def test_a_manifest_with_unknown_fields_and_other_record_names_can_be_read() -> None:
    def newer(schema: Any) -> None:
        schema["name"] = "ManifestEntry"
        schema["fields"].insert(0, {"name": "_NEW", "type": {"type": "array", "items": "string"}})
        schema["fields"][-1]["type"]["name"] = "DataFile"
        schema["fields"][-1]["type"]["fields"].insert(3, {"name": "_ALSO_NEW", "type": ["null", "double"]})

    def filled(record: Any) -> Any:
        return {**record, "_NEW": ["x"], "_FILE": {**record["_FILE"], "_ALSO_NEW": 0.5}}

    content = _rewritten(write_manifest([_ENTRY_VALUE], "zstd"), newer, filled)
    assert read_manifest(content, source="m") == [_ENTRY_VALUE]


def test_a_manifest_without_newer_fields_can_be_read() -> None:
    later = {"_DELETE_ROW_COUNT", "_FILE_SOURCE", "_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS"}

    def older(schema: Any) -> None:
        file = schema["fields"][-1]["type"]
        file["fields"] = [f for f in file["fields"] if f["name"] not in later]

    content = _rewritten(write_manifest([_ENTRY_VALUE], "zstd"), older)
    file = replace(_ENTRY_VALUE.file, delete_row_count=None, file_source=None, first_row_id=None)
    assert read_manifest(content, source="m") == [replace(_ENTRY_VALUE, file=file)]


def test_a_manifest_list_without_bucket_and_level_ranges_can_be_read() -> None:
    meta = make_meta("m", 5, [_ENTRY_VALUE], 0, [])
    assert (meta.min_bucket, meta.max_level, meta.min_row_id, meta.max_row_id) == (1, 0, 7, 9)

    def older(schema: Any) -> None:
        schema["fields"] = [f for f in schema["fields"] if not f["name"].startswith(("_MIN_", "_MAX_"))]

    (found,) = read_manifest_list(_rewritten(write_manifest_list([meta], "zstd"), older), source="l")
    assert (found.file_name, found.partition_stats, found.min_bucket, found.max_level) == ("m", EMPTY_STATS, None, None)


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (write_manifest([_ENTRY_VALUE], "none"), read_manifest),
        (write_manifest_list([make_meta("m", 5, [_ENTRY_VALUE], 0, [])], "none"), read_manifest_list),
    ],
)
def test_an_unknown_version_is_refused_by_its_number(content: bytes, read: Any) -> None:
    changed = _rewritten(content, lambda schema: None, lambda r: {**r, "_VERSION": 9})
    with pytest.raises(UnsupportedVersionError, match=r"file-x has records of version 9; .* reads version 2"):
        read(changed, source="file-x")


@pytest.mark.parametrize("read", [read_manifest, read_manifest_list, read_index_manifest])
@pytest.mark.parametrize("content", [b"", b"Obj\x01", b"no avro file at all", b"\x00" * 100])
def test_the_error_of_arbitrary_bytes_names_the_corrupt_file(read: Any, content: bytes) -> None:
    with pytest.raises(CorruptFileError, match="file-x"):
        read(content, source="file-x")


@pytest.mark.parametrize("codec", ["zstd", "none", "deflate"])
def test_any_cut_or_changed_byte_is_corrupt_or_gives_other_content(codec: str) -> None:
    content = write_manifest([_ENTRY_VALUE], codec)
    for length in range(0, len(content), 7):
        with pytest.raises(CorruptFileError, match="file-x"):
            read_manifest(content[:length], source="file-x")
    for position in range(0, len(content), 5):
        damaged = bytearray(content)
        damaged[position] ^= 0x55
        try:
            read_manifest(bytes(damaged), source="file-x")
        except (CorruptFileError, UnsupportedVersionError) as error:
            if "file-x" not in str(error):
                raise


@pytest.mark.parametrize("codec", ["zstd", "none"])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_any_cut_or_changed_byte_of_a_columnar_manifest_is_detected(file_format: str, codec: str) -> None:
    """Except bytes without a meaning: Parquet's page headers have no checksum."""
    content = write_manifest([_ENTRY_VALUE], codec, file_format)
    for length in range(0, len(content), 7):
        with pytest.raises(CorruptFileError, match="file-x"):
            read_manifest(content[:length], source="file-x")
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x55
        try:
            assert read_manifest(bytes(damaged), source="file-x") == [_ENTRY_VALUE]
            assert file_format == "parquet"
        except (CorruptFileError, UnsupportedVersionError) as error:
            if "file-x" not in str(error):
                raise


@pytest.mark.parametrize("file_format", ["avro", "parquet", "orc"])
def test_reading_a_manifest_list_as_a_manifest_is_refused(file_format: str) -> None:
    content = write_manifest_list([make_meta("m", 5, [_ENTRY_VALUE], 0, [])], "zstd", file_format)
    with pytest.raises(CorruptFileError, match="file-x"):
        read_manifest(content, source="file-x")


def test_partition_statistics_span_the_entries_and_count_nulls() -> None:
    types = [type_from_json(t) for t in ("STRING", "DOUBLE", "DATE")]
    rows: list[list[object]] = [["b", 1.0, None], [None, float("nan"), None], ["a", -0.0, None], ["ä", 0.0, None]]
    entries = [replace(_ENTRY_VALUE, partition=encode_row(row, types)) for row in rows]
    stats = make_meta("m", 1, entries, 0, types).partition_stats
    assert decode_row(stats.min_values, types)[0] == "a"
    assert str(decode_row(stats.min_values, types)[1]) == "-0.0"
    assert decode_row(stats.max_values, types)[0] == "ä"
    assert str(decode_row(stats.max_values, types)[1]) == "nan"
    assert decode_row(stats.max_values, types)[2] is None
    assert stats.null_counts == (1, 0, 4)


def test_the_versions_on_disk_do_not_change() -> None:
    assert (manifest_file.VERSION, manifest_file.LIST_VERSION, index_manifest.VERSION) == (2, 2, 1)


def test_a_manifest_list_with_records_in_a_union_with_null_can_be_read() -> None:
    # Some versions of pypaimon write the schema in this form.
    content = io.BytesIO()
    record: Any = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    fastavro.writer(content, fastavro.parse_schema(["null", record]), [{"a": 1}, {"a": 2}], codec="deflate")
    assert read_records(content.getvalue(), {"a"}, lambda r: r["a"], source="f") == [1, 2]
