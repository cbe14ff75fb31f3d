"""Partitions, tags, branches and snapshots of tables by the name of the table, as in pypaimon's catalogs.

Partitions are those of a table in its newest snapshot, given whole or by pages, and marked as done.
`partition.mark-done-action` is for jobs that wait for a whole day. `success-file` writes `_SUCCESS` into the directory
of the partition (JSON with the times of the first and the last mark, in milliseconds). `done-partition` registers a
partition `<value>.done` beside it in the metastore. Source: documentation page `flink/sql-write` (mark done),
paimon-core's PartitionMarkDoneAction.
"""

import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError, plain_errors
from interbed.storage.meta.options.format import is_object_table

if TYPE_CHECKING:
    from interbed.storage.meta.file_store import FileStore
    from interbed.storage.meta.snapshot.snapshot import Snapshot
    from interbed.storage.meta.snapshot.tag import Tag
    from interbed.storage.table.format_table.format_table import FormatTable
    from interbed.storage.table.object_table import ObjectTable
    from interbed.storage.table.table import Table

T = TypeVar("T")

PartitionSpecs: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]]
"""The argument `partitions` of methods of a catalog: one specification, or a list of them."""

ACTIONS = "partition.mark-done-action"
SUCCESS_FILE_NAME = "_SUCCESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """The size of a partition.

    `spec` maps each partition column to the text of its value, in the order of the table; null is the default name.
    Records are those of the files, not yet merged. `last_file_creation_time` is in milliseconds since the epoch.
    """

    spec: Mapping[str, str]
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    total_buckets: int = 0


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(PartitionStatistics):
    """A partition; `done` is for catalogs that mark partitions, which interbed's do not."""

    done: bool = False


def partition_specs(given: PartitionSpecs) -> list[Mapping[str, object]]:
    """Return the given specifications, one or several; raise InvalidInputError for other values."""
    specs: list[Any] = [given] if isinstance(given, Mapping) or not isinstance(given, Sequence) else list(given)
    for spec in specs:
        if not isinstance(spec, Mapping):
            raise InvalidInputError(
                f"{spec!r} names no partition: `partitions` takes a mapping such as {{'dt': '2026-01-01'}}, or a list "
                "of mappings."
            )
    return specs


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedList(Generic[T]):
    """A page of a list; `next_page_token` is None on the last one."""

    elements: Sequence[T]
    next_page_token: str | None = None


def partitions_of(table: "Table") -> list[Partition]:
    """Return the partitions that have files in the newest snapshot, in the order of the text of their values."""
    if not table.partition_keys:
        return []
    partitions = [
        Partition(
            spec=table.access.partition_spec(partition),
            record_count=found.records,
            file_size_in_bytes=found.bytes,
            file_count=found.files,
            last_file_creation_time=epoch_millis(found.created_millis),
            total_buckets=found.buckets,
        )
        for partition, found in table.access.partition_sums().items()
    ]
    return sorted(partitions, key=lambda p: tuple(p.spec.values()))


def local_spec(table: "Table", spec: Mapping[str, str]) -> dict[str, str]:
    """Return the specification with dates and timestamps as SQL shows them; those with a time zone are local."""
    from interbed.storage.base.types.data_type import AtomicType, TypeRoot

    paths = table.store.paths
    shown = paths.readable_spec(paths.parse_partition_spec(spec))
    for name, data_type in zip(paths.partition_names, paths.partition_types, strict=True):
        if isinstance(data_type, AtomicType) and data_type.root is TypeRoot.TIMESTAMP_LTZ:
            shown[name] = _local_text(shown[name])
    return shown


def _local_text(text: str) -> str:
    """Return a timestamp in UTC as local time, and a text that is none as it is."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).astimezone().replace(tzinfo=None).isoformat(" ")
    except (ValueError, OverflowError):
        return text


def partitions_of_files(table: "FormatTable") -> list[Partition]:
    """Return the partitions of a format table; how many records are in their files is not known."""
    if not table.partition_keys:
        return []
    return [
        Partition(
            spec=dict(found.spec),
            record_count=-1,
            file_size_in_bytes=found.size,
            file_count=found.file_count,
            last_file_creation_time=found.newest_millis or 0,
        )
        for found in table.partitions()
    ]


def partition_name(spec: Mapping[str, str]) -> str:
    """Return the name used for the order of pages and for patterns: `dt=2026-01-31/h=1`, not escaped."""
    return "/".join(f"{column}={value}" for column, value in spec.items())


def epoch_millis(wall_millis: int) -> int:
    """Convert a file's wall-clock time of its writer as if it were of the time zone of this machine, as Paimon does."""
    wall = datetime.fromtimestamp(wall_millis / 1000, UTC).replace(tzinfo=None)
    return round(wall.timestamp() * 1000)


class MarkDoneAction(StrEnum):
    """An action that marks a partition as done."""

    SUCCESS_FILE = "success-file"
    DONE_PARTITION = "done-partition"
    MARK_EVENT = "mark-event"
    HTTP_REPORT = "http-report"
    CUSTOM = "custom"


_HERE = (MarkDoneAction.SUCCESS_FILE, MarkDoneAction.DONE_PARTITION)


def mark_done(
    register: Callable[[list[dict[str, str]]], object],
    table: "Table",
    partitions: Sequence[Mapping[str, object]],
    clock: Callable[[], float] = time.time,
) -> list[dict[str, str]]:
    """Mark the partitions, each with all of its columns, by the actions of the table's option; return them.

    `register` creates partitions in the catalog. Raises InvalidInputError for a table without partitions or an
    incomplete specification, InvalidOptionError and NotSupportedError for the option; nothing is marked then.
    """
    from interbed.storage.version.tags import write_success_file

    if not table.partition_keys:
        raise InvalidInputError(f"The table '{table.name}' has no partitions to mark as done.")
    actions = _actions(table)
    paths = table.store.paths
    specs = [paths.parse_partition_spec(spec) for spec in partitions]
    for action in actions:
        if action is MarkDoneAction.SUCCESS_FILE:
            for spec in specs:
                directory = f"{table.location}/{paths.partition_directory(spec)}"
                write_success_file(table.store, f"{directory}/{SUCCESS_FILE_NAME}", int(clock() * 1000))
        else:
            register([_done(paths.directory_spec(spec)) for spec in specs])
    return [paths.partition_spec(spec) for spec in specs]


def as_format_table(table: object) -> "FormatTable | None":
    """Return an opened table if it is a format table; import nothing for that."""
    module: Any = sys.modules.get("interbed.storage.table.format_table.format_table")
    found: Any = table
    return found if module is not None and isinstance(found, module.FormatTable) else None


def as_object_table(table: object) -> "ObjectTable | None":
    """Return an opened table if it is an object table; import nothing for that."""
    module: Any = sys.modules.get("interbed.storage.table.object_table")
    found: Any = table
    return found if module is not None and isinstance(found, module.ObjectTable) else None


def opened_table(name: str, store: "FileStore") -> "Table":
    """Return the table of a file store, an ObjectTable if its schema says so."""
    if is_object_table(store.schema.options):
        from interbed.storage.table.object_table import ObjectTable

        # Readers use only methods that both kinds of tables have, or are refused by name.
        return cast("Table", ObjectTable(name, store.location, store.file_io, store.schema))
    from interbed.storage.table.table import Table

    return Table(name, store)


class TableParts(ABC):
    """The part of a catalog that works on partitions, tags, branches and snapshots of its tables."""

    @abstractmethod
    def get_table(self, identifier: "str | Identifier") -> "Table":
        """Return the table of that name."""

    def create_partitions(
        self,
        identifier: "str | Identifier",
        partitions: "PartitionSpecs",
        ignore_if_exists: bool = True,
    ) -> None:
        """Register partitions, which may be empty. Does nothing if the catalog keeps no partitions beside the files.

        A Hive catalog keeps them for tables with `metastore.partitioned-table`. Raises TableNotFoundError,
        InvalidInputError for an incomplete specification, PartitionExistsError unless that is to be ignored.
        """

        table = self.get_table(identifier)
        if (of_files := as_format_table(table)) is not None:
            of_files.add_partitions(partition_specs(partitions))
            return
        for spec in partition_specs(partitions):
            table.access.partition_of(spec)

    def alter_partitions(self, identifier: "str | Identifier", partitions: "Sequence[PartitionStatistics]") -> None:
        """Record the size of registered partitions, such as `list_partitions` returns; others are skipped.

        Does nothing if the catalog keeps no partitions beside the files. Raises TableNotFoundError.
        """
        self.get_table(identifier)

    def drop_partitions(self, identifier: "str | Identifier", partitions: "PartitionSpecs") -> None:
        """Delete the rows of partitions, as one commit, and their registration; missing ones are no error.

        A specification may leave out columns, and then selects all partitions that match it. Raises TableNotFoundError,
        InvalidInputError for no specification or an unknown column, and as a commit does.
        """

        specs = partition_specs(partitions)
        if not specs:
            raise InvalidInputError("Name at least one partition to drop; truncate the table to empty it.")
        table = self.get_table(identifier)
        if (of_files := as_format_table(table)) is not None:
            of_files.drop_partitions(specs)
            return
        table.new_batch_write_builder().new_commit().truncate_partitions(specs)

    def expire_partitions(
        self,
        identifier: "str | Identifier",
        *,
        expiration_time: timedelta | str | None = None,
        timestamp_formatter: str | None = None,
        timestamp_pattern: str | None = None,
        expire_strategy: str | None = None,
        max_expires: int | None = None,
        options: Mapping[str, str] | None = None,
        dry_run: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> list[dict[str, str]]:
        """Drop the partitions that are older than `expiration_time` (a timedelta, or text such as '30 d'); return them.

        Defaults are the options `partition.expiration-time`, `partition.timestamp-formatter`,
        `partition.timestamp-pattern`, `partition.expiration-strategy` and `partition.expiration-max-num`, those of
        `options` before the table's. Raises InvalidOptionError without a time, and the errors of drop_partitions.
        """
        from interbed.storage.meta.options.version import outdated

        given = {
            "partition.timestamp-formatter": timestamp_formatter,
            "partition.timestamp-pattern": timestamp_pattern,
            "partition.expiration-strategy": expire_strategy,
            "partition.expiration-max-num": max_expires,
        }
        table = self.get_table(identifier)
        if isinstance(expiration_time, timedelta):
            given["partition.expiration-time"] = f"{round(expiration_time.total_seconds() * 1000)} ms"
        else:
            given["partition.expiration-time"] = expiration_time
        chosen = {**(options or {}), **{key: str(value) for key, value in given.items() if value is not None}}
        bounds = table.copy(chosen).options
        if bounds.partition_expiration_millis is None:
            raise InvalidOptionError(
                f"Partitions of '{table.name}' have no bound: set 'partition.expiration-time', or give expiration_time."
            )
        with table.store.changing():
            found = partitions_of(table)
        old = outdated(
            [(each.spec, datetime.fromtimestamp(each.last_file_creation_time / 1000)) for each in found],
            datetime.fromtimestamp(clock() - bounds.partition_expiration_millis / 1000),
            strategy=bounds.partition_expiration_strategy,
            time=bounds.partition_time,
            most=bounds.partition_expiration_max_num,
            readable=lambda spec: local_spec(table, spec),
        )
        if old and not dry_run:
            self.drop_partitions(identifier, old)
        return old

    def mark_partitions_done(
        self, identifier: "str | Identifier", partitions: "PartitionSpecs"
    ) -> list[dict[str, str]]:
        """Mark partitions as complete, by the actions of `partition.mark-done-action`; return them with all columns.

        Raises InvalidInputError, InvalidOptionError, NotSupportedError.
        """

        name = str(identifier)
        specs = partition_specs(partitions)
        return mark_done(lambda made: self.create_partitions(name, made), self.get_table(name), specs)

    def list_partitions(self, identifier: "str | Identifier") -> "list[Partition]":
        """Return the partitions that hold rows, by the newest snapshot, or the directories of a format table, whose
        number of records is -1; raises TableNotFoundError.
        """

        table = self.get_table(identifier)
        if as_object_table(table) is not None:
            return []
        of_files = as_format_table(table)
        return partitions_of(table) if of_files is None else partitions_of_files(of_files)

    def list_partitions_paged(
        self,
        identifier: "str | Identifier",
        max_results: int | None = None,
        page_token: str | None = None,
        partition_name_pattern: str | None = None,
    ) -> "PagedList[Partition]":
        """Return a page of the partitions, by name; in the pattern `*` matches any text: `dt=2026-*`.

        Raises InvalidInputError for an invalid token.
        """

        found = self.list_partitions(identifier)
        if partition_name_pattern is not None:
            wanted = re.compile(".*".join(map(re.escape, partition_name_pattern.split("*"))), re.DOTALL)
            found = [p for p in found if wanted.fullmatch(partition_name(p.spec))]
        if page_token is not None and not page_token.isdigit():
            raise InvalidInputError(f"{page_token!r} is no token of a page of partitions.")
        start = int(page_token or 0)
        end = len(found) if max_results is None else start + max(1, max_results)
        return PagedList(elements=found[start:end], next_page_token=str(end) if end < len(found) else None)

    def load_snapshot(self, identifier: "str | Identifier") -> "Snapshot | None":
        """Return the newest snapshot of a table; None while nothing was committed."""
        return self.get_table(identifier).latest_snapshot()

    def rollback_to(self, identifier: "str | Identifier", instant: int | str) -> "Snapshot":
        """Roll back the commits after a snapshot (its id) or a tag (its name); see Table.versions.rollback_to."""
        return self.get_table(identifier).versions.rollback_to(instant)

    def create_tag(
        self,
        identifier: "str | Identifier",
        tag_name: str,
        snapshot_id: int | None = None,
        time_retained: str | None = None,
        ignore_if_exists: bool = False,
    ) -> "Tag":
        """Name a snapshot of a table, the newest one by default; see TableVersions.create_tag."""
        table = self.get_table(identifier)
        return table.versions.create_tag(tag_name, snapshot_id, ignore_if_exists, time_retained)

    def get_tag(self, identifier: "str | Identifier", tag_name: str) -> "Tag":
        """Return the tag of a name; raises TagNotFoundError."""
        return self.get_table(identifier).versions.get_tag(tag_name)

    def delete_tag(self, identifier: "str | Identifier", tag_name: str) -> "Tag | None":
        """Delete a tag; return it, None when its file is damaged. Raises TagNotFoundError."""
        return self.get_table(identifier).versions.delete_tag(tag_name)

    def list_tags_paged(
        self,
        identifier: "str | Identifier",
        max_results: int | None = None,
        page_token: str | None = None,
        tag_name_prefix: str | None = None,
    ) -> "PagedList[str]":
        """Return a page of the names of the tags of a table, sorted; the token is the last name of the page before.

        Raises InvalidInputError for a page of no names.
        """

        if max_results is not None and max_results < 1:
            raise InvalidInputError(f"A page has at least one tag, not {max_results}.")
        names = sorted(
            name
            for name in self.get_table(identifier).list_tags()
            if name.startswith(tag_name_prefix or "") and (page_token is None or name > page_token)
        )
        page = names[:max_results]
        return PagedList(elements=page, next_page_token=page[-1] if len(page) < len(names) else None)

    def list_branches(self, identifier: "str | Identifier") -> list[str]:
        """Return the names of the branches of a table, without `main`."""
        return self.get_table(identifier).versions.branches()

    def create_branch(self, identifier: "str | Identifier", branch_name: str, tag_name: str | None = None) -> None:
        """Create a branch of a table: empty, or with the rows of a tag. See Table.versions.create_branch."""
        self.get_table(identifier).versions.create_branch(branch_name, tag_name)

    def rename_branch(self, identifier: "str | Identifier", from_branch: str, to_branch: str) -> None:
        """Rename a branch; see Table.versions.rename_branch."""
        self.get_table(identifier).versions.rename_branch(from_branch, to_branch)

    def drop_branch(self, identifier: "str | Identifier", branch_name: str) -> None:
        """Delete a branch; raises BranchNotFoundError."""
        self.get_table(identifier).versions.delete_branch(branch_name)

    def fast_forward(self, identifier: "str | Identifier", branch_name: str) -> None:
        """Replace the state of the table by that of the branch; see Table.versions.fast_forward."""
        self.get_table(identifier).versions.fast_forward(branch_name)


def _actions(table: "Table") -> list[MarkDoneAction]:
    text = table.options.text(ACTIONS, MarkDoneAction.SUCCESS_FILE.value)
    try:
        actions = [MarkDoneAction(part.strip().lower()) for part in text.split(",")]
    except ValueError as error:
        known = ", ".join(MarkDoneAction)
        raise InvalidOptionError(f"Option '{ACTIONS}' lists some of {known}, not '{text}'.") from error
    for action in actions:
        if action not in _HERE:
            raise NotSupportedError(
                f"Option '{ACTIONS}' of '{table.name}' has '{action}', which is not supported; set it to "
                f"{' or '.join(map(repr, map(str, _HERE)))}."
            )
    if MarkDoneAction.DONE_PARTITION in actions and not table.options.boolean("metastore.partitioned-table", False):
        raise InvalidOptionError(
            f"Partitions of '{table.name}' can't be marked by '{MarkDoneAction.DONE_PARTITION}': they are not in a "
            "metastore. Set 'metastore.partitioned-table' in a Hive catalog, or use 'success-file'."
        )
    return actions


def _done(spec: Mapping[str, str]) -> dict[str, str]:
    last = list(spec)[-1]
    return {**spec, last: f"{spec[last]}.done"}
