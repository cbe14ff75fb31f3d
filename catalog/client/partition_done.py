"""Marking partitions as done, for jobs that wait for a whole day: `partition.mark-done-action`.

`success-file` writes `_SUCCESS` into the partition's directory (JSON of when it was first and last marked, in
milliseconds), `done-partition` registers a partition `<value>.done` beside it in the metastore. Source: documentation
page `flink/sql-write` (mark done), paimon-core's PartitionMarkDoneAction.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError

if TYPE_CHECKING:
    from interbed.storage.table.table import Table

ACTIONS = "partition.mark-done-action"
SUCCESS_FILE_NAME = "_SUCCESS"


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
