"""Partitions, tags, branches and snapshots of tables by the name of the table, as in pypaimon's catalogs."""

import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError

if TYPE_CHECKING:
    from interbed.catalog.client.partition import PagedList, Partition, PartitionSpecs, PartitionStatistics
    from interbed.storage.meta.snapshot.snapshot import Snapshot
    from interbed.storage.meta.snapshot.tag import Tag
    from interbed.storage.table.format_table.format_table import FormatTable
    from interbed.storage.table.object_table import ObjectTable
    from interbed.storage.table.table import Table


def as_format_table(table: object) -> "FormatTable | None":
    """Return an opened table if it is a format table; import nothing for that."""
    found: FormatTable | None = _if_of("interbed.storage.table.format_table.format_table", "FormatTable", table)
    return found


def as_object_table(table: object) -> "ObjectTable | None":
    """Return an opened table if it is an object table; import nothing for that."""
    found: ObjectTable | None = _if_of("interbed.storage.table.object_table", "ObjectTable", table)
    return found


def _if_of(module: str, name: str, table: object) -> Any:
    """Return a table of a class; None for another one, also where the module of the class is not loaded."""
    loaded = sys.modules.get(module)
    return table if loaded is not None and isinstance(table, getattr(loaded, name)) else None


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
        from interbed.catalog.client.partition import partition_specs

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
        from interbed.catalog.client.partition import partition_specs

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
        from interbed.catalog.client.partition import local_spec, partitions_of
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
        from interbed.catalog.client.partition import mark_done, partition_specs

        name = str(identifier)
        specs = partition_specs(partitions)
        return mark_done(lambda made: self.create_partitions(name, made), self.get_table(name), specs)

    def list_partitions(self, identifier: "str | Identifier") -> "list[Partition]":
        """Return the partitions that hold rows, by the newest snapshot, or the directories of a format table, whose
        number of records is -1; raises TableNotFoundError.
        """
        from interbed.catalog.client.partition import partitions_of, partitions_of_files

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
        from interbed.catalog.client.partition import PagedList, partition_name

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
        from interbed.catalog.client.partition import PagedList

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
