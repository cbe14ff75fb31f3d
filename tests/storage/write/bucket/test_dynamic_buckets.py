"""Tables with dynamic buckets: consecutive, concurrent and long-lived writers, and damaged indexes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import interbed
from interbed.storage.base.errors import CommitConflictError, CorruptFileError, InvalidOptionError
from interbed.storage.write.commit_message import NO_BASIS, CommitMessage
from tests.storage.write.bucket.tables import expected, index_counts, index_directory, make_table, read, restored, rows

OPTIONS = {"dynamic-bucket.target-row-num": "4"}


def test_a_primary_key_table_without_the_option_bucket_has_dynamic_buckets(tmp_path: Path) -> None:
    table = make_table(tmp_path, {})
    table.upsert(rows([1, 2]))
    assert index_counts(table) == {("dt=a", 0): 2}


def test_known_keys_keep_their_bucket_and_new_ones_fill_buckets(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    parts = [rows(range(6), "1"), rows(range(3, 9), "2"), rows(range(5), "3", "b")]
    for part in parts:
        table.upsert(part)
    assert index_counts(table) == {("dt=a", 0): 4, ("dt=a", 1): 4, ("dt=a", 2): 1, ("dt=b", 0): 4, ("dt=b", 1): 1}
    assert read(table) == expected(*parts)
    assert {e.total_buckets for e in table.new_scan().entries()} == {-1}


def test_an_update_of_known_keys_does_not_change_the_index(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(6)))
    before = set(index_directory(tmp_path).iterdir())
    table.upsert(rows(range(6), "2"))
    assert set(index_directory(tmp_path).iterdir()) == before


def test_a_compaction_keeps_the_index_and_deleted_keys_keep_their_bucket(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(6)))
    table.delete("id < 5")
    table.compact()
    counts = index_counts(table)
    table.upsert(rows(range(6), "2"))
    assert read(table) == expected(rows(range(6), "2"))
    assert index_counts(table) == {("dt=a", 0): 4, **counts}


def test_one_bucket_can_be_compacted_by_its_number(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    for value in "xy":
        table.upsert(rows(range(6), value))
    assert table.compact(bucket=1).buckets == 1
    assert read(table) == expected(rows(range(6), "y"))


def test_buckets_exceed_their_target_size_at_the_maximum_number_of_buckets(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "dynamic-bucket.max-buckets": "2"})
    table.upsert(rows(range(50)))
    table.upsert(rows(range(40, 60), "2"))
    counts = index_counts(table)
    assert set(counts) == {("dt=a", 0), ("dt=a", 1)}
    assert sum(counts.values()) == 60
    assert read(table) == expected(rows(range(50)), rows(range(40, 60), "2"))


def test_a_new_partition_may_begin_with_several_buckets(tmp_path: Path) -> None:
    table = make_table(tmp_path, {"dynamic-bucket.initial-buckets": "3"})
    table.upsert(rows(range(100)))
    table.upsert(rows(range(50, 150), "2"))
    assert len(index_counts(table)) == 3
    assert read(table) == expected(rows(range(100)), rows(range(50, 150), "2"))


@pytest.mark.parametrize("dynamic", [True, False])
def test_an_overwrite_rebuilds_the_indexes(tmp_path: Path, dynamic: bool) -> None:
    table = make_table(tmp_path, OPTIONS)
    kept = rows(range(3), "kept", "b")
    table.upsert(rows(range(9)))
    table.upsert(kept)
    new = rows(range(5, 11), "new")
    table.overwrite(new, partitions=None if dynamic else {"dt": "a"})
    assert index_counts(table) == {("dt=a", 0): 4, ("dt=a", 1): 2, ("dt=b", 0): 3}
    table.upsert(rows(range(3), "again"))
    assert read(table) == expected(kept, new, rows(range(3), "again"))


def test_the_second_of_two_writers_of_one_partition_conflicts_and_leaves_no_file(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(3)))
    messages = {}
    for user in ("first", "second"):
        with table.new_write(user) as write:
            write.write_arrow(rows([7, 8], user))
            messages[user] = write.prepare_commit()
    table.new_commit("first").commit(messages["first"])
    files = set(tmp_path.rglob("*"))
    with pytest.raises(CommitConflictError, match="one writer at a time"):
        table.new_commit("second").commit([CommitMessage.from_bytes(m.to_bytes()) for m in messages["second"]])
    gone = files - set(tmp_path.rglob("*"))
    data = {f.file_name for m in messages["second"] for f in m.data.new_files}
    indexes = {f.file_name for m in messages["second"] for f in m.data.new_index_files}
    assert {f.name for f in gone} == data | indexes
    assert read(table) == expected(rows(range(3)), rows([7, 8], "first"))


def test_a_writer_of_known_keys_conflicts_with_an_overwrite(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(8)))
    with table.new_write("late") as write:
        write.write_arrow(rows([7], "late"))
        messages = write.prepare_commit()
    assert not any(m.data.new_index_files for m in messages)
    table.overwrite(rows([7], "new"))
    with pytest.raises(CommitConflictError):
        table.new_commit("late").commit(messages)
    assert read(table) == expected(rows([7], "new"))


def test_writers_of_different_partitions_do_not_conflict(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    messages = {}
    for dt in "ab":
        with table.new_write(dt) as write:
            write.write_arrow(rows(range(5), dt, dt))
            messages[dt] = write.prepare_commit()
    for dt in "ab":
        table.new_commit(dt).commit(messages[dt])
    assert read(table) == expected(rows(range(5), "a", "a"), rows(range(5), "b", "b"))


def test_concurrent_upserts_are_retried_until_all_are_committed(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "commit.max-retries": "50", "write-only": "true"})
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda i: table.upsert(rows(range(i, i + 6), "same")), range(8)))
    assert sorted(i for i in ids if i) == list(range(1, 9))
    assert read(table) == expected(rows(range(13), "same"))
    assert sum(index_counts(table).values()) == 13


def test_a_long_lived_writer_knows_its_own_keys_before_they_are_committed(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    write, commit = table.new_write("stream"), table.new_commit("stream")
    prepared = []
    for round_ in range(3):
        write.write_arrow(rows(range(round_, round_ + 6), str(round_)))
        prepared.append(write.prepare_commit())
    for identifier, messages in enumerate(prepared):
        commit.commit(messages, identifier=identifier)
    parts = [rows(range(i, i + 6), str(i)) for i in range(3)]
    assert read(table) == expected(*parts)
    # After an overwrite by another writer, it starts from the state of that overwrite.
    table.overwrite(rows([1], "other"))
    write.write_arrow(rows(range(1, 7), "last"))
    commit.commit(write.prepare_commit(), identifier=3)
    write.close()
    assert read(table) == expected(rows([1], "other"), rows(range(1, 7), "last"))
    assert index_counts(table) == {("dt=a", 0): 4, ("dt=a", 1): 2}


def test_a_bucket_without_an_index_is_indexed_by_its_keys(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    with table.new_write("old") as write:
        write.write_arrow(rows(range(6), "old"))
        # A writer that does not support indexes leaves a bucket in this state.
        bare = [replace(m, data=replace(m.data, new_index_files=()), basis=NO_BASIS) for m in write.prepare_commit()]
    table.new_commit("old").commit(bare)
    assert index_counts(table) == {}
    table.upsert(rows([5, 6], "new"))
    assert read(table) == expected(rows(range(6), "old"), rows([5, 6], "new"))
    assert index_counts(table) == {("dt=a", 0): 4, ("dt=a", 1): 3}


def test_an_aborted_writer_leaves_no_index_file(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    write = table.new_write("gone")
    write.write_arrow(rows(range(6)))
    messages = write.prepare_commit()
    write.close()
    table.new_commit("gone").abort(messages)
    assert list(index_directory(tmp_path).iterdir()) == []


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_the_error_names_a_damaged_index_and_says_how_to_repair_it(tmp_path: Path, damage: str) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(6)))
    snapshot = table.latest_snapshot()
    for index in index_directory(tmp_path).iterdir():
        if damage == "missing":
            index.unlink()
        else:
            index.write_bytes(index.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match=r"index/index-.*Overwrite"):
        table.upsert(rows([99]))
    assert table.latest_snapshot() == snapshot
    table.overwrite(rows(range(6), "saved"))
    table.upsert(rows([99]))
    assert read(table) == expected(rows(range(6), "saved"), rows([99]))
    assert len(restored(table).buckets()) == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("dynamic-bucket.target-row-num", "0"),
        ("dynamic-bucket.max-buckets", "0"),
        ("dynamic-bucket.max-buckets", "32769"),
        ("dynamic-bucket.initial-buckets", "-3"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, option: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=option):
        make_table(tmp_path, {option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [("dynamic-bucket.max-buckets", "40000"), ("dynamic-bucket.target-row-num", "0")],
)
def test_a_table_gets_no_invalid_option(tmp_path: Path, option: str, value: str) -> None:
    table = make_table(tmp_path, {**OPTIONS})
    with pytest.raises(InvalidOptionError, match=option):
        table.update_schema().set_option(option, value).commit()
    table.upsert(rows(range(3)))
    assert read(table) == expected(rows(range(3)))


def test_a_table_with_a_higher_limit_of_java_is_written(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "dynamic-bucket.max-buckets": "32768"})
    [schema] = tmp_path.glob("db.db/t/schema/schema-0")
    schema.write_text(schema.read_text().replace('"32768"', '"40000"'))
    table = interbed.load_catalog("test", warehouse=f"file:{tmp_path}").get_table("db.t")
    table.upsert(rows(range(6)))
    assert read(table) == expected(rows(range(6)))
