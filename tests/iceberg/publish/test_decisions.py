"""Pure decisions of a publication, without files: types, changed files, retained snapshots, merged manifests."""

import pytest
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.snapshots import Snapshot as Published

from interbed.iceberg.meta.table_metadata import IDENTITY
from interbed.iceberg.publish.document import InheritedIds, MetadataDocument, first_changed
from interbed.iceberg.publish.entries import ShownLevels, Totals, changes_of, summary_of
from interbed.iceberg.publish.manifests import due_for_compaction
from interbed.iceberg.publish.place import (
    PublishedRetention,
    PublishPlace,
    PublishSettings,
    forgotten,
    identity_of,
    index_file_of,
    is_of,
    kept,
    references,
)
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.data_type import ArrayType, AtomicType, DataField, DataType, TypeRoot
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from tests.storage.commit.tables import data_file

INT, BIGINT, TEXT = AtomicType(TypeRoot.INT), AtomicType(TypeRoot.BIGINT), AtomicType(TypeRoot.VARCHAR, length=9)
FINE = AtomicType(TypeRoot.TIMESTAMP, precision=9)
COARSE = AtomicType(TypeRoot.TIMESTAMP, precision=6)


@pytest.mark.parametrize(
    ("before", "after", "is_read"),
    [
        (INT, BIGINT, True),
        (BIGINT, INT, False),
        (INT, TEXT, False),
        (AtomicType(TypeRoot.TINYINT), INT, True),
        (AtomicType(TypeRoot.FLOAT), AtomicType(TypeRoot.DOUBLE), True),
        (AtomicType(TypeRoot.TIMESTAMP, precision=3), COARSE, True),
        (AtomicType(TypeRoot.DECIMAL, precision=5, scale=2), AtomicType(TypeRoot.DECIMAL, precision=9, scale=2), True),
        (AtomicType(TypeRoot.DECIMAL, precision=5, scale=2), AtomicType(TypeRoot.DECIMAL, precision=9, scale=3), False),
        (ArrayType(INT), ArrayType(BIGINT), True),
        (ArrayType(INT), ArrayType(TEXT), False),
        (ArrayType(INT), INT, False),
    ],
)
def test_type_changes_are_accepted_where_iceberg_allows_them(before: DataType, after: DataType, is_read: bool) -> None:
    old, new = DataField(id=1, name="x", type=before), DataField(id=1, name="y", type=after)
    assert first_changed([old], [new]) == (None if is_read else "y")
    assert first_changed([old], [DataField(id=2, name="x", type=after)]) is None


def test_nanoseconds_are_refused_because_files_have_them_as_int96() -> None:
    with pytest.raises(NotSupportedError, match=r"TIMESTAMP\(9\).*INT96"):
        first_changed([DataField(id=1, name="x", type=COARSE)], [DataField(id=1, name="x", type=FINE)])


def entry(kind: FileKind, name: str, level: int) -> tuple[str, ManifestEntry]:
    file = data_file(level=level, name=name)
    return name, ManifestEntry(kind=kind, partition=b"", bucket=0, total_buckets=1, file=file)


def test_added_and_removed_files_follow_the_shown_levels() -> None:
    add, delete = FileKind.ADD, FileKind.DELETE
    delta = [entry(delete, "a", 0), entry(add, "a", 5), entry(delete, "b", 5), entry(add, "c", 3), entry(add, "d", 5)]
    top = changes_of(delta, ShownLevels(5))
    assert (list(top.added), list(top.removed), top.adds_only) == (["a", "d"], ["b"], False)
    upper = changes_of([entry(delete, "a", 1), entry(add, "a", 5)], ShownLevels(1))
    assert (list(upper.added), list(upper.removed), upper.adds_only) == (["a"], [], False)
    nothing = changes_of([entry(delete, "a", 0), entry(add, "b", 0)], ShownLevels(1))
    assert (nothing.added, nothing.removed, nothing.adds_only) == ({}, {}, True)


def test_a_summary_continues_the_previous_totals() -> None:
    added, removed = [entry(FileKind.ADD, "a", 0)[1]], [entry(FileKind.ADD, "b", 0)[1]]
    rows, size = added[0].file.row_count, added[0].file.file_size
    before = {"total-data-files": "3", "total-records": "30", "total-files-size": "300"}
    found = summary_of(added, removed, before, Totals(files=1, records=2))
    assert (found["total-data-files"], found["total-records"], found["total-files-size"]) == ("3", "30", "300")
    assert (found["added-records"], found["removed-files-size"]) == (str(rows), str(size))
    assert (found["total-delete-files"], found["total-position-deletes"]) == ("1", "2")
    assert summary_of(added, [], {}, Totals())["total-records"] == str(rows)


def ours(number: int, **more: object) -> Snapshot:
    base: dict[str, object] = {
        "id": number,
        "schema_id": 0,
        "base_manifest_list": "b",
        "delta_manifest_list": "d",
        "commit_user": "u",
        "commit_identifier": 1,
        "commit_kind": CommitKind.APPEND,
        "time_millis": 100 * number,
        "total_record_count": 0,
        "delta_record_count": 0,
        "uuid": f"id-{number}",
    }
    return Snapshot(**{**base, **more})  # type: ignore[arg-type]


def theirs(number: int, identity: str | None = None) -> Published:
    summary = Summary(Operation.APPEND, **({} if identity is None else {IDENTITY: identity}))
    return Published.model_validate(
        {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": 100 * number,
            "summary": summary,
            "manifest-list": f"list-{number}",
            "schema-id": 0,
        }
    )


def test_a_published_snapshot_is_identified_by_its_commit() -> None:
    assert is_of(theirs(1, "id-1"), ours(1))
    assert not is_of(theirs(1, "id-1"), ours(1, uuid="other"))
    assert identity_of(ours(2, uuid=None)) == "u:1:200"
    assert is_of(theirs(2, "u:1:200"), ours(2, uuid=None))
    # Java 1.4 records no identity; it publishes after it has committed.
    assert is_of(theirs(1), ours(1))
    assert not is_of(theirs(1), ours(1, time_millis=101))


def test_expired_snapshots_are_removed_and_tagged_snapshots_stay() -> None:
    line = [theirs(number, f"id-{number}") for number in range(1, 7)]
    retention = PublishedRetention(least=1, most=2, millis=10_000)
    tagged = {"two": ours(2), "other": ours(3, uuid="another"), "gone": ours(9)}
    left = kept(line, {3, 4, 5, 6}, tagged, retention, now_millis=600)
    assert [one.snapshot_id for one in left] == [2, 5, 6]
    assert {name: ref.snapshot_id for name, ref in references(left, tagged).items()} == {"two": 2}
    # Expiry by time removes them, too, but keeps the minimum number.
    by_time = PublishedRetention(least=2, most=9, millis=1)
    assert [one.snapshot_id for one in kept(line, {4, 5, 6}, {}, by_time, 10_000)] == [5, 6]
    gone = forgotten(line, left)
    assert [(one.snapshot_id, [n.snapshot_id for n in near]) for one, near in gone] == [
        (1, [2]),
        (3, [2, 5]),
        (4, [2, 5]),
    ]


def test_rolled_back_snapshots_are_compared_with_their_neighbours_in_both_histories() -> None:
    def of(number: int, manifest_list: str) -> Published:
        return theirs(number).model_copy(update={"manifest_list": manifest_list})

    before = [of(3, "three"), of(4, "old 4"), of(5, "old 5")]
    after = [of(3, "three"), of(4, "new 4"), of(5, "new 5"), of(6, "new 6")]
    found = forgotten(before, after)
    assert [(gone.manifest_list, [one.manifest_list for one in near]) for gone, near in found] == [
        ("old 4", ["three", "new 4"]),
        ("old 5", ["three", "new 4"]),
    ]


def test_small_manifests_are_merged_by_number_or_by_size() -> None:
    options = {"metadata.iceberg.compaction.min.file-num": "3", "metadata.iceberg.compaction.max.file-num": "5"}
    settings = PublishSettings.of(CoreOptions({**options, "manifest.target-file-size": "100 b"}))
    assert due_for_compaction([1, 1], settings) == []
    assert due_for_compaction([1, 1, 1], settings) == []
    assert due_for_compaction([1, 1, 1, 1, 1, 90], settings) == [0, 1, 2, 3, 4]
    assert due_for_compaction([90, 40, 40, 40], settings) == [1, 2, 3]


def test_a_puffin_file_is_named_after_its_index_file() -> None:
    place = PublishPlace("/lake/metadata")
    plain, other = place.vectors("index-1-0", None), place.vectors("index-1-0", "file:/lake/t")
    assert plain == "/lake/metadata/index-1-0.puffin"
    # The paths in it have the same form as the table's location.
    assert other not in {plain, place.vectors("index-1-0", "s3a://lake/t")}
    assert {index_file_of(path) for path in (plain, other, "/lake/db.db/t/index/index-1-0")} == {"index-1-0"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format-version": 2}', b'{"format-version": 9}'])
def test_damaged_metadata_are_ignored(content: bytes) -> None:
    assert MetadataDocument.decode(content) is None
    assert InheritedIds.of(content).next_row_id == 0


def test_table_identity_is_inherited_from_incomplete_metadata() -> None:
    found = InheritedIds.of(b'{"format-version": 3, "table-uuid": "u", "last-column-id": 7, "next-row-id": 9}')
    assert found == InheritedIds(table_uuid="u", last_column_id=7, next_row_id=9)
