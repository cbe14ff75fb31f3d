"""Dynamic buckets of a table that is written: the hash indexes of its partitions are read, extended and rewritten.

Each bucket has one index file with the hashes of its keys (specification page `spec/tableindex`, dynamic bucket index):
four bytes for each hash, big-endian, in any order, without duplicates, and without a header. The length of the file
gives the number of hashes, and so does the index manifest.

A writer reads the indexes of a partition when the first row of the partition comes, and rewrites those of the buckets
that got new keys. The commit messages name the index files on which the choice of buckets is based, so that a commit
notices when another writer has changed them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.row.words import murmur_hash, murmur_hash_bytes
from interbed.storage.io.api import FileIO, write_file
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.meta.bucket_mode import DYNAMIC_BUCKETS
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.index_manifest import HASH_INDEX, IndexFileMeta
from interbed.storage.scan.live_files import BucketRestore
from interbed.storage.write.bucket.partition_buckets import DynamicBucketRules, Hashes, PartitionBuckets
from interbed.storage.write.bucket.route import Numbers
from interbed.storage.write.commit_message import CommitMessage

_HASH_BYTES = 4

_WAY_OUT = "Overwrite the partition (INSERT OVERWRITE), which makes new indexes."


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChange:
    """The new index file of a bucket and the file that it replaces, if the bucket had one."""

    new: IndexFileMeta
    replaced: IndexFileMeta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChanges:
    """The changes of the hash indexes by a commit.

    `changes` are by bucket. `bases` has, for each partition that was written, the names of all its hash index files
    before the change.
    """

    changes: Mapping[BucketId, IndexChange]
    bases: Mapping[bytes, tuple[str, ...]]

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """Return the message of a bucket with the change of its index."""
        base = self.bases.get(message.partition)
        data = message.data
        if base is None or not (data.new_files or message.bucket_id in self.changes):
            return message
        change = self.changes.get(message.bucket_id)
        if change is not None:
            replaced = () if change.replaced is None else (change.replaced,)
            data = replace(
                data,
                new_index_files=(*data.new_index_files, change.new),
                deleted_index_files=(*data.deleted_index_files, *replaced),
            )
        return replace(message, data=data, basis=replace(message.basis, hash_indexes=base))

    def others(self, written: Collection[BucketId]) -> list[CommitMessage]:
        """Return the messages of buckets without new rows whose index has changed."""
        return [
            self.added_to(CommitMessage(bucket_id=bucket_id, total_buckets=DYNAMIC_BUCKETS))
            for bucket_id in sorted(self.changes.keys() - set(written))
        ]


@dataclass(slots=True)
class _Partition:
    """The index of a partition.

    `states` are the names of its files after the last commit that is known to be made, then after each prepared commit
    since.
    """

    buckets: PartitionBuckets
    files: dict[int, IndexFileMeta]
    states: list[frozenset[str]]
    is_written: bool = True
    unindexed: set[int] = field(default_factory=set)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(f.file_name for f in self.files.values())


class DynamicBuckets:
    """Chooser of buckets by key hash for one writer. `restored` returns the files of the newest snapshot that the
    writer knows.

    Not for use by several threads.
    """

    def __init__(self, store: FileStore, restored: Callable[[], BucketRestore]) -> None:
        self._store = store
        self._restored = restored
        self._rules = DynamicBucketRules.of(store.options)
        self._names = [f.name for f in store.schema.key_fields]
        self._types = store.schema.key_types
        self._partitions: dict[bytes, _Partition] = {}
        self._checked: set[bytes] = set()

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        """Return the bucket of each row; raise CorruptFileError for a damaged index, and the errors of
        PartitionBuckets.assign.
        """
        hashes = murmur_hash([block.column(name) for name in self._names], self._types)
        if len(partitions) == 1:
            return self._partition(partitions[0]).buckets.assign(hashes)
        buckets = np.zeros(block.num_rows, np.int64)
        # A loop over the block's partitions, whose indexes are independent of each other.
        for code, partition in enumerate(partitions):
            rows = np.flatnonzero(codes == code)
            buckets[rows] = self._partition(partition).buckets.assign(hashes[rows])
        return buckets

    def prepare(self) -> IndexChanges:
        """Write the index files of buckets with new keys, which the caller owns from now on.

        On an error the files that were written are deleted.
        """
        changes: dict[BucketId, IndexChange] = {}
        bases: dict[bytes, tuple[str, ...]] = {}
        try:
            for partition, state in self._partitions.items():
                if not state.is_written:
                    continue
                bases[partition] = tuple(sorted(state.names))
                for bucket in sorted(state.buckets.changed | state.unindexed):
                    bucket_id = BucketId(partition, bucket)
                    changes[bucket_id] = self._write(bucket_id, state)
        except BaseException:
            paths = [self._store.index_path(bucket_id, change.new) for bucket_id, change in changes.items()]
            self._store.file_io.delete_quietly(paths)
            raise
        for bucket_id, change in changes.items():
            self._partitions[bucket_id.partition].files[bucket_id.bucket] = change.new
        self._begin_next(bases)
        return IndexChanges(changes=changes, bases=bases)

    def _begin_next(self, bases: Mapping[bytes, tuple[str, ...]]) -> None:
        idle = []
        for partition, state in self._partitions.items():
            state.buckets.clear_changed()
            state.unindexed.clear()
            if partition in bases:
                if state.names != state.states[-1]:
                    state.states.append(state.names)
            elif len(state.states) == 1:
                idle.append(partition)
            state.is_written = False
        # Partitions without new rows, such as those of past days, need no memory.
        for partition in idle:
            del self._partitions[partition]
        self._checked.clear()

    def _write(self, bucket_id: BucketId, state: _Partition) -> IndexChange:
        store = self._store
        file = store.new_index_file(bucket_id)
        written = write_hashes(store.file_io, file.path, state.buckets.hashes_of(bucket_id.bucket))
        new = replace(written, external_path=file.external_path)
        return IndexChange(new=new, replaced=state.files.get(bucket_id.bucket))

    def _partition(self, partition: bytes) -> _Partition:
        state = self._partitions.get(partition)
        if state is None or partition not in self._checked:
            self._checked.add(partition)
            files = _hash_files(self._restored(), partition)
            names = frozenset(f.file_name for f in files.values())
            if state is not None and names in state.states:
                del state.states[: state.states.index(names)]
            else:
                # The partition is new to this writer, or another writer has changed it.
                state = self._load(partition, files, names)
                self._partitions[partition] = state
        state.is_written = True
        return state

    def _load(self, partition: bytes, files: dict[int, IndexFileMeta], names: frozenset[str]) -> _Partition:
        store = self._store
        known = {
            b: read_hashes(store.file_io, store.index_path(BucketId(partition, b), f), f) for b, f in files.items()
        }
        restored = self._restored()
        unindexed = set()
        for bucket in restored.buckets_of(partition):
            # Some writers, such as pypaimon, write no index; then the keys themselves are read.
            bucket_id = BucketId(partition, bucket)
            if bucket not in known and bucket >= 0 and restored.files(bucket_id):
                known[bucket] = self._read_keys(restored, bucket_id)
                unindexed.add(bucket)
        buckets = PartitionBuckets(self._rules, known, seed=murmur_hash_bytes(partition[4:]))
        return _Partition(buckets=buckets, files=files, states=[names], unindexed=unindexed)

    def _read_keys(self, restored: BucketRestore, bucket_id: BucketId) -> Hashes:
        """Return the hashes of all keys in the data files of a bucket, including deleted keys."""
        store = self._store
        directory = store.paths.bucket_directory(bucket_id)
        reader = FileRead(store, store.schema.key_fields)
        found = [np.empty(0, np.int32)]
        for file in restored.files(bucket_id):
            path = file.path_in(directory)
            for batch in reader.batches(file, path, ReadOptions(batch_rows=block_rows([file]))):
                hashes = murmur_hash([batch.column(name) for name in self._names], self._types)
                found = [np.unique(np.concatenate([*found, hashes]))]
        return found[0]


def _hash_files(restored: BucketRestore, partition: bytes) -> dict[int, IndexFileMeta]:
    """Return the hash index files of a partition by bucket."""
    return {
        bucket: file
        for bucket in restored.buckets_of(partition)
        for file in restored.index_files(BucketId(partition, bucket))
        if file.index_type == HASH_INDEX
    }


def write_hashes(file_io: FileIO, path: str, hashes: Hashes) -> IndexFileMeta:
    """Write the hashes of a bucket to a new index file and return its metadata. On an error the file is deleted."""
    content = hashes.astype(">i4").tobytes()
    write_file(file_io, path, content)
    return IndexFileMeta(
        index_type=HASH_INDEX, file_name=path.rpartition("/")[2], file_size=len(content), row_count=len(hashes)
    )


def read_hashes(file_io: FileIO, path: str, file: IndexFileMeta) -> Hashes:
    """Return the hashes of an index file; raise CorruptFileError if the file does not match the manifest."""
    try:
        content = file_io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptFileError(f"The hash index {path} is missing. {_WAY_OUT}") from None
    if len(content) != file.row_count * _HASH_BYTES:
        raise CorruptFileError(
            f"The hash index {path} has {len(content)} bytes; {file.row_count} hashes take "
            f"{file.row_count * _HASH_BYTES}. {_WAY_OUT}"
        )
    return np.frombuffer(content, ">i4").astype(np.int32)
