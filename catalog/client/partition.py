"""The partitions of a table, as its newest snapshot has them, pages of them, and marking them as done.

`partition.mark-done-action` is for jobs that wait for a whole day. `success-file` writes `_SUCCESS` into the
partition's directory (JSON of when it was first and last marked, in milliseconds), `done-partition` registers a
partition `<value>.done` beside it in the metastore. Source: documentation page `flink/sql-write` (mark done),
paimon-core's PartitionMarkDoneAction.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError, plain_errors

if TYPE_CHECKING:
    from interbed.storage.table.table import Table

T = TypeVar("T")

PartitionSpecs: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]]
"""What the methods of a catalog take as `partitions`: one specification, or a list of them."""

ACTIONS = "partition.mark-done-action"
SUCCESS_FILE_NAME = "_SUCCESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """How much a partition holds.

    `spec` maps each partition column to the text of its value, in the table's order; null is the default name.
    Records are those of the files, not yet merged. `last_file_creation_time` in milliseconds since the epoch.
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
    """A partition; `done` is for catalogs that mark partitions, which none of interbed's does."""

    done: bool = False


def partition_specs(given: PartitionSpecs) -> list[Mapping[str, object]]:
    """The specifications that a caller gives, one or several; raises InvalidInputError for anything else."""
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
    """A page; `next_page_token` is None on the last one."""

    elements: Sequence[T]
    next_page_token: str | None = None


def partitions_of(table: "Table") -> list[Partition]:
    """The partitions that have files in the newest snapshot, in the order of their values' text."""
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


def partition_name(spec: Mapping[str, str]) -> str:
    """The name that pages are cut by and patterns are matched against: `dt=2026-01-31/h=1`, not escaped."""
    return "/".join(f"{column}={value}" for column, value in spec.items())


def epoch_millis(wall_millis: int) -> int:
    """A file's time, noted as wall-clock time of its writer, taken for that of this machine's zone as in Paimon."""
    wall = datetime.fromtimestamp(wall_millis / 1000, UTC).replace(tzinfo=None)
    return round(wall.timestamp() * 1000)


class MarkDoneAction(StrEnum):
    """What marks a partition as done."""

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
    """Mark the partitions, each named by all of its columns, as the table's option says; they are returned.

    `register` makes partitions known to the table's catalog.
    Raises InvalidInputError for a table without partitions or a partition that is not complete, InvalidOptionError and
    NotSupportedError for the option; nothing is marked then.
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
                f"Option '{ACTIONS}' of '{table.name}' has '{action}', which is not carried out here; set it to "
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
