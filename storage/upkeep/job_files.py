"""Files of a job that many processes work on: they have its name, and a mark says that it may still succeed.

Processes end while their job fails, and the job does not wait for those that still run; their results are lost. So the
names of a job's data and changelog files begin with the job's own name after the table's prefix (`data-<name>-…`), and
those of its index files too (`index-data-<name>-…`), by which the driver finds them. While the job may succeed there is
a mark, `snapshot/.write-<name>`. A job that ends removes the mark before it looks for files, and a task looks for the
mark after its last file is written: the later of the two deletes the files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from interbed.storage.base.path_name import entry_name
from interbed.storage.io.api import FileStatus
from interbed.storage.meta.file_store import FileStore
from interbed.storage.version.orphans import named_files
from interbed.storage.write.commit_message import CommitMessage

_MARK = ".write-"
_BUCKET = "bucket-"


@dataclass(frozen=True, slots=True)
class JobFiles:
    """Files of the job of that name in a table: `store` is the table as the driver opened it, not as `named`."""

    store: FileStore
    name: str

    @property
    def file_prefixes(self) -> tuple[str, str]:
        """Prefixes of the names of the job's data files and of its changelog files."""
        options = self.store.options
        return f"{options.data_file_prefix}{self.name}-", f"{options.changelog_file_prefix}{self.name}-"

    def named(self) -> dict[str, str]:
        """Return the dynamic options that give the files of the job's tasks its name."""
        data, changelog = self.file_prefixes
        return {"data-file.prefix": data, "changelog-file.prefix": changelog}

    def mark(self) -> None:
        """Create the mark that the job may succeed; raises StorageAccessError."""
        self.store.file_io.create_exclusive(self._mark, b"")

    def is_marked(self) -> bool:
        """Return whether the job may still succeed."""
        return self.store.file_io.exists(self._mark)

    def unmark(self) -> None:
        """Remove the mark: the job has ended, and its tasks delete what they write after that."""
        self.store.file_io.delete_quietly([self._mark])

    def sweep(self, messages: Sequence[CommitMessage]) -> None:
        """Delete files of task attempts that were not committed.

        These are data and changelog files in the messages' buckets, and index files. `messages` are all of the job.
        """
        rows = [f for m in messages for f in (*m.data.new_files, *m.compaction.after)]
        changelog = [f for m in messages for f in (*m.data.changelog_files, *m.compaction.changelog)]
        committed = {f.file_name for f in (*rows, *changelog)} | {name for f in rows for name in f.extra_files}
        committed |= {f.file_name for m in messages for f in (*m.data.new_index_files, *m.compaction.new_index_files)}
        for bucket_id in {m.bucket_id for m in messages}:
            inner = self.store.paths.relative_bucket(bucket_id)
            found = (f for root in self.store.data_roots for f in _files_below(self.store, f"{root}/{inner}"))
            own = (f for f in found if f.name.startswith(self._prefixes))
            self.store.file_io.delete_quietly([f.path for f in own if not f.name.startswith(tuple(committed))])
        self.store.file_io.delete_quietly([f.path for f in self._indexes() if f.name not in committed])

    def paths(self) -> Iterator[str]:
        """Yield the job's data and changelog files in all partitions and buckets, and its index files."""
        file_io, paths = self.store.file_io, self.store.paths
        data = paths.data_directory
        directories = [f"{root}/{data}" if data else root for root in self.store.data_roots]
        for _ in paths.partition_names:
            directories = [e.path for d in directories for e in file_io.list(d) if e.is_directory and "=" in e.name]
        for directory in directories:
            for bucket in file_io.list(directory):
                if bucket.is_directory and bucket.name.startswith(_BUCKET):
                    yield from (
                        f.path for f in _files_below(self.store, bucket.path) if f.name.startswith(self._prefixes)
                    )
        yield from (f.path for f in self._indexes())

    def delete_all(self) -> None:
        """Delete all files of a job that was not committed; for other jobs see `delete_unnamed`."""
        self.store.file_io.delete_quietly(self.paths())

    @property
    def _prefixes(self) -> tuple[str, ...]:
        """Prefixes of the names of all of the job's files."""
        return (*self.file_prefixes, *(f"index-{prefix}" for prefix in self.file_prefixes))

    def _indexes(self) -> Iterator[FileStatus]:
        """Return the job's index files that are not beside the data files."""
        listed = self.store.file_io.list(self.store.paths.index_directory)
        return (f for f in listed if f.name.startswith(self._prefixes))

    @property
    def _mark(self) -> str:
        directory = self.store.paths.snapshot_directory
        return f"{directory}/{entry_name(_MARK + self.name, directory)}"


def marked_jobs(store: FileStore, prefix: str) -> list[JobFiles]:
    """Return the jobs of a table that have a mark and this prefix: running, or left by a driver that died."""
    listed = store.file_io.list(store.paths.snapshot_directory)
    return [JobFiles(store, f.name.removeprefix(_MARK)) for f in listed if f.name.startswith(f"{_MARK}{prefix}")]


def delete_unnamed(jobs: Iterable[JobFiles]) -> None:
    """Delete files of jobs on one table that no snapshot, tag or changelog refers to.

    Raises CorruptFileError when it is unknown which these are.
    """
    store: FileStore | None = None
    found: set[str] = set()
    for job in jobs:
        store = job.store
        found.update(job.paths())
    if store is not None and found:
        store.file_io.delete_quietly(sorted(found - named_files(store)))


def _files_below(store: FileStore, directory: str) -> Iterator[FileStatus]:
    """Yield the files of a bucket; external paths may have directories in between."""
    for found in store.file_io.list(directory):
        if found.is_directory:
            yield from _files_below(store, found.path)
        else:
            yield found
