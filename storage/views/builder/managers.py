"""pypaimon's managers of what a table keeps: snapshots, tags, consumers, branches."""

from collections.abc import Sequence
from dataclasses import dataclass

from interbed.storage.base.errors import SnapshotNotFoundError
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import Tag, TagManager
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch import BranchManager


@dataclass(frozen=True, slots=True)
class BuiltSnapshots:
    """The snapshots of a table; what is not there is None."""

    store: TableStore

    def get_latest_snapshot(self) -> Snapshot | None:
        """The newest one."""
        return self.store.snapshots.latest()

    def try_get_earliest_snapshot(self) -> Snapshot | None:
        """The oldest one."""
        earliest = self.store.snapshots.earliest_id()
        return None if earliest is None else self.get_snapshot_by_id(earliest)

    def get_snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """The one of that id, read anew: after a rollback it may be another one."""
        try:
            return self.store.snapshots.read(snapshot_id)
        except SnapshotNotFoundError:
            return None

    def get_snapshots_batch(self, snapshot_ids: Sequence[int]) -> dict[int, Snapshot | None]:
        """Those of some ids."""
        return {snapshot_id: self.get_snapshot_by_id(snapshot_id) for snapshot_id in snapshot_ids}

    def list_snapshots(self) -> list[Snapshot]:
        """All of them, oldest first."""
        return self.store.snapshots.all()

    def earlier_or_equal_time_mills(self, timestamp: int) -> Snapshot | None:
        """The newest one of that time, in milliseconds since the epoch, or before."""
        try:
            return self.store.snapshots.by_time_millis(timestamp)
        except SnapshotNotFoundError:
            return None

    def later_or_equal_watermark(self, watermark: int) -> Snapshot | None:
        """The oldest one of that watermark, in milliseconds since the epoch, or of a later one."""
        marked = (s for s in self.store.snapshots.all() if s.watermark is not None and s.watermark >= watermark)
        return next(marked, None)

    def get_snapshot_path(self, snapshot_id: int) -> str:
        """The file of a snapshot."""
        return self.store.paths.snapshot(snapshot_id)


@dataclass(frozen=True, slots=True)
class BuiltTags:
    """The tags of a table by name; to change them call the table's methods."""

    store: TableStore

    def list_tags(self) -> list[str]:
        """The names."""
        return self._tags.names()

    def tag_exists(self, tag_name: str) -> bool:
        """Whether there is one of that name."""
        return self._tags.find(tag_name) is not None

    def get(self, tag_name: str) -> Tag | None:
        """The one of that name; None when there is none."""
        return self._tags.find(tag_name)

    def get_or_throw(self, tag_name: str) -> Tag:
        """The one of that name; raises TagNotFoundError."""
        return self._tags.get(tag_name)

    @property
    def _tags(self) -> TagManager:
        return TagManager(self.store.file_io, self.store.paths)


@dataclass(frozen=True, slots=True)
class BuiltConsumers:
    """The consumers of a table: the first snapshot that each has not read."""

    store: TableStore

    def list_all_ids(self) -> list[str]:
        """The ids."""
        return self._consumers.ids()

    def consumers(self) -> dict[str, int]:
        """The next snapshot of each, by id."""
        return self._consumers.all()

    def min_next_snapshot(self) -> int | None:
        """The oldest snapshot that any of them is yet to read; None without consumers."""
        return self._consumers.min_next_snapshot()

    def delete_consumer(self, consumer_id: str) -> None:
        """Forget one."""
        self._consumers.delete(consumer_id)

    @property
    def _consumers(self) -> ConsumerManager:
        return ConsumerManager(self.store.file_io, self.store.paths)


@dataclass(frozen=True, slots=True)
class BuiltBranches:
    """The branches of a table."""

    store: TableStore

    def branches(self) -> list[str]:
        """The names of all but `main`."""
        return self._branches.names()

    def branch_exists(self, branch_name: str) -> bool:
        """Whether there is one of that name."""
        return branch_name in self._branches.names()

    def create_branch(self, branch_name: str, tag_name: str | None = None, ignore_if_exists: bool = False) -> None:
        """Make one: empty, or with the rows that a tag keeps. Raises InvalidInputError, TagNotFoundError."""
        self._branches.create(branch_name, tag_name, ignore_if_exists=ignore_if_exists)

    def rename_branch(self, from_branch: str, to_branch: str) -> None:
        """Give one another name; raises BranchNotFoundError, InvalidInputError for a name that is taken."""
        self._branches.rename(from_branch, to_branch)

    def drop_branch(self, branch_name: str) -> None:
        """Delete one; raises BranchNotFoundError."""
        self._branches.delete(branch_name)

    def fast_forward(self, branch_name: str) -> None:
        """Make the table what the branch is; raises BranchNotFoundError, InvalidInputError for an empty branch."""
        self._branches.fast_forward(branch_name)

    @property
    def _branches(self) -> BranchManager:
        return BranchManager(self.store)
