"""`Table.versions`: snapshots by name and time, tags, branches, rollback, consumers.

Times are given as datetimes (local without a zone), ISO text or milliseconds since the epoch; spans as timedeltas or as
text such as '7 d'. Names of methods and arguments follow Paimon's procedures.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from interbed.storage.base.clock import Moment, moment_millis
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.base.shown_text import parse_duration_millis
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.table.described import TablePart

if TYPE_CHECKING:
    from interbed.storage.meta.file_store import VersionKeeper
    from interbed.storage.meta.schema.table_schema import TableSchema
    from interbed.storage.meta.snapshot.snapshot import Snapshot
    from interbed.storage.meta.snapshot.tag import Tag, TagManager

Span = timedelta | str


class TableVersions(TablePart):
    """The versions of a table: snapshots, tags, branches, rollback, consumers."""

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self, snapshot_id: int) -> "Snapshot":
        """Return the snapshot of that id, from a tag if it has expired; raise SnapshotNotFoundError."""
        from interbed.storage.scan.starting_point import snapshot_or_tagged

        return snapshot_or_tagged(self.store, snapshot_id)

    def snapshot_at(self, time_millis: int) -> "Snapshot":
        """Return the newest snapshot at that time (milliseconds since the epoch) or before; raise
        SnapshotNotFoundError.
        """
        return self.store.snapshots.by_time_millis(time_millis)

    def snapshot_named(self, name: str) -> "Snapshot":
        """Return the snapshot of a tag name or an id, as in VERSION AS OF.

        Raises TagNotFoundError, SnapshotNotFoundError.
        """
        from interbed.storage.scan.starting_point import named_version

        return named_version(self.store, name)

    # -- tags --------------------------------------------------------------------------------------------------------

    def tags(self) -> "list[Tag]":
        """Return all tags, by the ids of their snapshots."""
        return self._tags.all()

    def get_tag(self, name: str) -> "Tag":
        """Return the tag of a name; raises TagNotFoundError."""
        return self._tags.get(name)

    def create_tag(
        self,
        name: str,
        snapshot_id: int | None = None,
        ignore_if_exists: bool = False,
        time_retained: Span | None = None,
    ) -> "Tag":
        """Name a snapshot, the newest one by default, so that it stays readable when it expires.

        `time_retained` is how long the tag stays, by default `tag.default-time-retained`. Raises InvalidInputError for
        a name that is taken, SnapshotNotFoundError.
        """
        from interbed.storage.meta.snapshot.tag import new_tag
        from interbed.storage.version.tags import create_tag, note_created

        self.store.check_here()
        tag = new_tag(name, self._version(snapshot_id), self._retained(time_retained))
        if create_tag(self.store, tag):
            note_created(self.store, name)
            self._announce()
            return tag
        if ignore_if_exists:
            return self._tags.get(name)
        raise InvalidInputError(f"There is a tag {name!r} of the table '{self.name}' already; replace_tag replaces it.")

    def create_tag_from_timestamp(self, name: str, timestamp: Moment, *, time_retained: Span | None = None) -> "Tag":
        """Name the first snapshot, or tagged one, at that time or later; raises as create_tag does."""
        millis = moment_millis(timestamp)
        candidates = [*(tag.snapshot for tag in self.tags()), *self.store.snapshots.all()]
        later = [snapshot for snapshot in candidates if snapshot.time_millis >= millis]
        if not later:
            raise SnapshotNotFoundError(f"The table '{self.name}' has no snapshot of {millis} ms or later.")
        first = min(later, key=lambda snapshot: snapshot.id)
        return self.create_tag(name, first.id, time_retained=time_retained)

    def replace_tag(self, name: str, snapshot_id: int | None = None, time_retained: Span | None = None) -> "Tag":
        """Move a tag to another snapshot; raises TagNotFoundError, SnapshotNotFoundError."""
        from interbed.storage.meta.snapshot.tag import new_tag
        from interbed.storage.version.tags import note_created, replace_tag

        self.store.check_here()
        tag = new_tag(name, self._version(snapshot_id), self._retained(time_retained))
        replace_tag(self.store, tag)
        note_created(self.store, name)
        self._announce()
        return tag

    def rename_tag(self, name: str, new_name: str) -> None:
        """Rename a tag; raises TagNotFoundError, InvalidInputError for a name that is taken."""
        from interbed.storage.version.tags import rename_tag

        self.store.check_here()
        rename_tag(self.store, name, new_name)
        self._announce()

    def delete_tag(self, name: str) -> "Tag | None":
        """Delete a tag, and the files that only it kept; return it, or None when its file is damaged.

        Raises TagNotFoundError.
        """
        from interbed.storage.version.tags import delete_tag

        self.store.check_here()
        deleted = delete_tag(self.store, name)
        self._announce()
        return deleted

    def expire_tags(self, older_than: Moment | None = None, *, clock: Callable[[], float] = time.time) -> list[str]:
        """Delete the tags whose retention has ended, and those made before `older_than`; return their names."""
        from interbed.storage.version.tags import expire_tags

        self.store.check_here()
        moment = None if older_than is None else datetime.fromtimestamp(moment_millis(older_than) / 1000)
        deleted = expire_tags(self.store, datetime.fromtimestamp(clock()), moment)
        if deleted:
            self._announce()
        return deleted

    def create_automatic_tags(self) -> list[str]:
        """Make the tags that the options the `tag.*` options define, as commits do; return their names.

        Raises InvalidOptionError.
        """
        from interbed.storage.version.tags import create_automatic_tags

        self.store.check_here()
        made = create_automatic_tags(self.store)
        if made:
            self._announce()
        if self.store.options.tag_time_expire_enabled:
            self.expire_tags()
        return made

    # -- branches ----------------------------------------------------------------------------------------------------

    def branches(self) -> list[str]:
        """Return the names of all branches but `main`."""
        from interbed.storage.version.branch import BranchManager

        return BranchManager(self.store).names()

    def create_branch(self, name: str, tag: str | None = None, *, ignore_if_exists: bool = False) -> None:
        """Create a branch: empty, or with the rows of a tag. Raises InvalidInputError, TagNotFoundError."""
        from interbed.storage.version.branch import BranchManager, check_branch_name

        self.store.check_here()
        keeper = self._keeper
        if keeper is None:
            BranchManager(self.store).create(name, tag, ignore_if_exists=ignore_if_exists)
        elif not (ignore_if_exists and name in self.branches()):
            keeper.create_branch(check_branch_name(name), tag)

    def delete_branch(self, name: str) -> None:
        """Delete a branch; raises BranchNotFoundError."""
        from interbed.storage.version.branch import BranchManager

        self.store.check_here()
        if self._keeper is not None:
            self._keeper.delete_branch(name)
        else:
            BranchManager(self.store).delete(name)

    def rename_branch(self, name: str, new_name: str) -> None:
        """Rename a branch; raises BranchNotFoundError, InvalidInputError for a name that is taken."""
        from interbed.storage.version.branch import BranchManager, check_branch_name

        self.store.check_here()
        if self._keeper is not None:
            self._keeper.rename_branch(name, check_branch_name(new_name))
        else:
            BranchManager(self.store).rename(name, new_name)

    def merge_branch(self, source: str, target: str = MAIN_BRANCH) -> int | None:
        """Add the rows of a branch to another one, or to the table itself; return the new snapshot, None without rows.

        Only for append tables, if both branches have only appended since they diverged; no file is copied. Raises
        BranchNotFoundError, NotSupportedError, InvalidInputError, and as a commit does.
        """
        from interbed.storage.version.branch import BranchManager

        self.store.check_here()
        return BranchManager(self.store).merge(source, target)

    def fast_forward(self, branch: str) -> None:
        """Replace the state of the table by that of the branch; raises BranchNotFoundError, InvalidInputError for an
        empty branch.
        """
        from interbed.storage.version.branch import BranchManager

        self.store.check_here()
        if self._keeper is not None:
            self._keeper.fast_forward(branch)
        else:
            BranchManager(self.store).fast_forward(branch)
        self._table.refresh()
        self._announce()

    # -- rollback ----------------------------------------------------------------------------------------------------

    def rollback_to(self, version: int | str) -> "Snapshot":
        """Roll back all commits after a snapshot (its id) or a tag (its name); that snapshot is returned.

        Raises SnapshotNotFoundError, TagNotFoundError.
        """
        from interbed.storage.version.rollback import roll_back

        self.store.check_here()
        target = roll_back(self.store, version)
        self._announce()
        return target

    def rollback_to_timestamp(self, timestamp: Moment) -> "Snapshot":
        """Roll back all commits after a time; raises SnapshotNotFoundError."""
        from interbed.storage.version.rollback import roll_back_to_time

        self.store.check_here()
        target = roll_back_to_time(self.store, moment_millis(timestamp))
        self._announce()
        return target

    def rollback_to_watermark(self, watermark: int) -> "Snapshot":
        """Roll back all commits after a watermark, in milliseconds; raises SnapshotNotFoundError."""
        from interbed.storage.version.rollback import roll_back_to_watermark

        self.store.check_here()
        target = roll_back_to_watermark(self.store, watermark)
        self._announce()
        return target

    def rollback_schema(self, schema_id: int) -> "TableSchema":
        """Delete the schemas after that of an id, which is returned; later ones may not be in use.

        Raises InvalidInputError, CommitConflictError, NotSupportedError in a catalog that keeps the history.
        """
        from interbed.storage.version.rollback import roll_back_schema

        self.store.check_here()
        if self.store.version_keeper is not None:
            raise NotSupportedError(f"The catalog of '{self.name}' rolls back no schemas; change the schema instead.")
        on_main = self.store.paths.branch == MAIN_BRANCH
        by_catalog = self.store.environment.roll_back_schema if on_main else None
        found = roll_back_schema(self.store, schema_id) if by_catalog is None else by_catalog(schema_id)
        self._table.refresh()
        return found

    # -- consumers ---------------------------------------------------------------------------------------------------

    def consumers(self) -> dict[str, int]:
        """Return the first snapshot that each consumer has not read."""
        from interbed.storage.meta.snapshot.progress import ConsumerManager

        return ConsumerManager(self.store.file_io, self.store.paths).all()

    def reset_consumer(self, consumer_id: str, next_snapshot: int | None = None) -> None:
        """Let a consumer continue from a snapshot, or delete it without one."""
        from interbed.storage.meta.snapshot.progress import ConsumerManager
        from interbed.storage.version.tags import reset_consumer

        self.store.check_here()
        consumers = ConsumerManager(self.store.file_io, self.store.paths)
        if next_snapshot is None:
            consumers.delete(consumer_id)
        else:
            reset_consumer(self.store, consumer_id, next_snapshot)

    def clear_consumers(self, including: str = ".*", excluding: str | None = None) -> list[str]:
        """Delete the consumers whose whole ids match `including` and not `excluding`; return their ids."""
        from interbed.storage.meta.snapshot.progress import ConsumerManager

        self.store.check_here()
        return ConsumerManager(self.store.file_io, self.store.paths).clear(including, excluding)

    # -- inside ------------------------------------------------------------------------------------------------------

    @property
    def _keeper(self) -> "VersionKeeper | None":
        """The catalog's keeper of branches, which are those of the table itself; None where the files are changed."""
        versions = self.store.environment.versions
        return None if versions is None else versions(MAIN_BRANCH)

    @property
    def _tags(self) -> "TagManager":
        from interbed.storage.meta.snapshot.tag import TagManager

        return TagManager(self.store.file_io, self.store.paths)

    def _version(self, snapshot_id: int | None) -> "Snapshot":
        from interbed.storage.scan.starting_point import snapshot_or_tagged

        snapshots = self.store.snapshots
        if snapshot_id is None:
            latest = snapshots.latest()
            if latest is None:
                raise SnapshotNotFoundError(f"The table '{self.name}' has no snapshot to name yet.")
            return latest
        return snapshot_or_tagged(self.store, snapshot_id)

    def _retained(self, given: Span | None) -> timedelta | None:
        if isinstance(given, timedelta):
            return given
        if given is not None:
            return timedelta(milliseconds=parse_duration_millis("time_retained", given))
        default = self.store.options.tag_default_time_retained_millis
        return None if default is None else timedelta(milliseconds=default)
