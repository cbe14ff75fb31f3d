"""The container of a file's indexes, and the choice of indexes by a table's options."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, UnsupportedVersionError
from interbed.storage.base.types.data_type import AtomicType, DataField, MapType, TypeRoot
from interbed.storage.files.file_index.api import IndexContainer, encode_container
from interbed.storage.files.file_index.spec import FileIndexSpec, TableFileIndexWriter

NAMES = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\0"), max_size=6)
TEXT = AtomicType(TypeRoot.VARCHAR, length=20)
FIELDS = [
    DataField(id=0, name="id", type=AtomicType(TypeRoot.BIGINT)),
    DataField(id=1, name="name", type=TEXT),
    DataField(id=2, name="tags", type=MapType(TEXT.with_nullable(False), TEXT)),
]


def container(content: bytes) -> IndexContainer:
    source: Any = pa.BufferReader(content)
    return IndexContainer(source, "x.index")


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, st.none() | st.binary(max_size=20), max_size=3), max_size=3))
def test_a_container_survives_the_round_trip(columns: dict[str, dict[str, bytes | None]]) -> None:
    assert container(encode_container(columns)).all() == columns


def test_a_container_has_the_bytes_that_the_specification_prescribes() -> None:
    content = encode_container({"c": {"bitmap": b"xyz", "none": None}})
    assert content.hex() == (
        (1493475289347502).to_bytes(8, "big").hex()
        + "00000001"  # version
        + f"{len(content) - 3:08x}"  # length of the header
        + "00000001"  # columns
        + "000163"  # c
        + "00000002"  # indexes
        + "0006" + b"bitmap".hex() + f"{len(content) - 3:08x}" + "00000003"
        + "0004" + b"none".hex() + "ffffffff" + "00000000"
        + "00000000"  # no fields of later versions
        + b"xyz".hex()
    )  # fmt: skip


def test_the_error_names_a_damaged_container() -> None:
    content = encode_container({"c": {"bitmap": b"xyz"}})
    with pytest.raises(CorruptFileError, match=r"x\.index is not a file index"):
        container(b"\1" + content[1:])
    with pytest.raises(UnsupportedVersionError, match="version 2"):
        container(content[:11] + b"\2" + content[12:])
    for end in range(len(content)):
        with pytest.raises(CorruptFileError, match=r"x\.index"):
            container(content[:end]).all()


def test_options_choose_kinds_columns_and_their_settings() -> None:
    found = FileIndexSpec.of(
        FIELDS,
        {
            "file-index.bloom-filter.columns": "id, name,tags[a],tags[b]",
            "file-index.bloom-filter.id.items": "100",
            "file-index.bloom-filter.tags.fpp": "0.3",
            "file-index.bloom-filter.tags[b].fpp": "0.2",
            "file-index.in-manifest-threshold": "1 kb",
            "file-index.read.enabled": "true",
        },
        in_manifest_threshold=1024,
    )
    assert [(c.name, c.column, c.key, dict(c.options.raw)) for c in found.columns] == [
        ("id", "id", None, {"items": "100"}),
        ("name", "name", None, {}),
        ("tags[a]", "tags", "a", {"fpp": "0.3"}),
        ("tags[b]", "tags", "b", {"fpp": "0.2"}),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file-index.bloom-filter.columns": "id,gone"}, "'file-index.bloom-filter.columns' names the column 'gone'"),
        ({"file-index.bloom.columns": "id"}, "'file-index.bloom.columns' names no kind"),
        ({"file-index.bitmap.columns": "id,,name"}, "empty column name"),
        ({"file-index.bitmap.columns": "tags"}, "'tags', which is MAP"),
        ({"file-index.bitmap.columns": "id[a]"}, "only a MAP with text keys"),
        ({"file-index.bitmap.name.version": "1"}, "'file-index.bitmap.columns' does not list"),
    ],
)
def test_options_that_define_no_valid_index_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message.replace("[", r"\[").replace("]", r"\]")):
        FileIndexSpec.of(FIELDS, options, in_manifest_threshold=500)


def test_small_indexes_are_stored_in_the_manifest_and_large_ones_beside_the_file() -> None:
    batch = pa.record_batch({"id": [1, 2], "name": ["a", "b"]})
    small = TableFileIndexWriter(
        FileIndexSpec.of(FIELDS, {"file-index.bitmap.columns": "id"}, in_manifest_threshold=500)
    )
    small.add(batch)
    indexes = small.finish()
    assert indexes is not None
    assert indexes.file is None
    assert indexes.embedded is not None
    large = TableFileIndexWriter(
        FileIndexSpec.of(FIELDS, {"file-index.bitmap.columns": "id"}, in_manifest_threshold=10)
    )
    large.add(batch)
    indexes = large.finish()
    assert indexes is not None
    assert indexes.embedded is None
    assert indexes.file is not None


def test_a_value_of_a_map_is_indexed_under_its_key() -> None:
    writer = TableFileIndexWriter(
        FileIndexSpec.of(FIELDS, {"file-index.bitmap.columns": "tags[a],tags[b]"}, in_manifest_threshold=500)
    )
    tags = pa.array([{"a": "x"}, None, {"b": "y", "a": "z"}], pa.map_(pa.string(), pa.string()))
    writer.add(pa.record_batch([tags], names=["tags"]))
    indexes = writer.finish()
    assert indexes is not None
    assert indexes.embedded is not None
    assert container(indexes.embedded).columns == {"tags[a]": ("bitmap",), "tags[b]": ("bitmap",)}
