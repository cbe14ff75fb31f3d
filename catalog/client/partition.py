"""The partitions of a table in its newest snapshot, pages of them, and marking them as done.

`partition.mark-done-action` is for jobs that wait for a whole day. `success-file` writes `_SUCCESS` into the directory
of the partition (JSON with the times of the first and the last mark, in milliseconds). `done-partition` registers a
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
    from interbed.storage.table.format_table.format_table import FormatTable
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
