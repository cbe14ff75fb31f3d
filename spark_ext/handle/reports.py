"""Errors and metrics on their way to the JVM.

Errors have planner.thrift's kinds, for which Spark has exceptions of its own. Metrics are what Spark shows of a scan
and of a commit in its UI and its status store. Their names are those of paimon-spark-common's PaimonMetrics, which has
no `mergedSplits`, `plannedRecords` and `commitAttempts`. interbed.spark.metric.Metrics has how a metric is summed and
shown.
"""

import traceback
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any

from interbed.catalog.client.errors import (
    CatalogUnavailableError,
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    NotAnInterbedTableError,
    TableExistsError,
    TableNotFoundError,
    UnregisteredTableError,
    ViewNotFoundError,
)
from interbed.storage.base.errors import (
    BranchNotFoundError,
    CommitError,
    CommitStateUnknownError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    SnapshotGoneError,
    SnapshotNotFoundError,
    TagNotFoundError,
    UnsupportedVersionError,
)
from interbed.storage.base.shown_text import without_secrets
from interbed.storage.scan.split import Plan
from interbed.storage.write.commit_message import CommitMessage
from interbed.thrift_idl.planner.ttypes import ErrorKind, PlannerError


class RepeatedKeyError(InterbedError):
    """Rows that need distinct keys have repeated ones; nothing was changed."""


# In this order: a later class may be the base of an earlier one.
_KINDS: tuple[tuple[type[InterbedError], int], ...] = (
    (RepeatedKeyError, ErrorKind.REPEATED_KEY),
    (CommitStateUnknownError, ErrorKind.COMMIT_STATE_UNKNOWN),
    (CommitError, ErrorKind.COMMIT_CONFLICT),
    (DatabaseNotFoundError, ErrorKind.NO_SUCH_NAMESPACE),
    (DatabaseExistsError, ErrorKind.NAMESPACE_EXISTS),
    (DatabaseNotEmptyError, ErrorKind.NAMESPACE_NOT_EMPTY),
    # For the kinds of missing and existing tables, Spark does not show the message.
    (UnregisteredTableError, ErrorKind.INVALID_ARGUMENT),
    (TableNotFoundError, ErrorKind.NO_SUCH_TABLE),
    (ViewNotFoundError, ErrorKind.NO_SUCH_TABLE),
    (TableExistsError, ErrorKind.TABLE_EXISTS),
    (SnapshotGoneError, ErrorKind.SNAPSHOT_GONE),
    (SnapshotNotFoundError, ErrorKind.NO_SUCH_SNAPSHOT),
    (TagNotFoundError, ErrorKind.NO_SUCH_SNAPSHOT),
    (BranchNotFoundError, ErrorKind.NO_SUCH_TABLE),
    (CatalogUnavailableError, ErrorKind.UNAVAILABLE),
    (NotAnInterbedTableError, ErrorKind.FOREIGN_TABLE),
    (NotSupportedError, ErrorKind.UNSUPPORTED),
    (UnsupportedVersionError, ErrorKind.UNSUPPORTED),
    (InvalidInputError, ErrorKind.INVALID_ARGUMENT),
)


def planner_error(error: Exception, secrets: Iterable[str] = ()) -> PlannerError:
    """Return the error for the JVM, without these secrets.

    Another error than interbed's is INTERNAL, with its traceback. The JVM shows the texts to users, and Spark writes
    them to its event log.
    """
    for kind_of, kind in _KINDS:
        if isinstance(error, kind_of):
            return PlannerError(kind=kind, message=without_secrets(str(error), secrets))
    return PlannerError(
        kind=ErrorKind.INTERNAL,
        message=without_secrets(message_of(error), secrets),
        detail=without_secrets("".join(traceback.format_exception(error)), secrets),
    )


def message_of(error: BaseException) -> str:
    """Return the text for the user: the message of interbed's errors, and also the class's name of others."""
    if isinstance(error, InterbedError):
        return str(error)
    return f"{type(error).__name__}: {error}"


class GuardedHandler:
    """Handler of planner.thrift whose methods raise only PlannerError.

    For other exceptions Thrift's processor sends a message without the cause.
    """

    def __init__(self, handler: object, secrets: Collection[str] = ()) -> None:
        """`secrets` may get more while the handler is used."""
        self._handler = handler
        self._secrets = secrets

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._handler, name)

        @wraps(method)
        def guarded(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except Exception as error:
                raise planner_error(error, self._secrets) from error

        return guarded


def scan_metrics(plan: Plan, planning_millis: int) -> dict[str, int]:
    """Return the metrics of the planning of a scan: manifests and files that are read, and those that are skipped."""
    found = plan.statistics
    return {
        "planningDuration": planning_millis,
        "scannedSnapshotId": plan.snapshot_id or 0,
        "scannedManifests": found.manifests_read,
        "skippedTableFiles": found.files_total - found.files_planned,
        "resultedTableFiles": found.files_planned,
        "plannedRecords": found.rows_planned,
        "mergedSplits": found.splits_merged,
    }


def commit_metrics(
    messages: Iterable[CommitMessage], *, attempts: int, commit_millis: int, copies_rows: bool
) -> dict[str, int]:
    """Return the metrics of a commit: files and rows that it added and deleted.

    With `copies_rows` new files hold also unchanged rows, so that the number of changed rows is unknown.
    """
    messages = list(messages)
    new = [file for m in messages for file in m.data.new_files]
    added = len(new) + sum(len(m.compaction.after) for m in messages)
    removed_files = sum(len(m.data.deleted_files) + len(m.compaction.before) for m in messages)
    changelog = sum(len(m.data.changelog_files) + len(m.compaction.changelog) for m in messages)
    metrics = {
        "commitDuration": commit_millis,
        "commitAttempts": attempts,
        "addedTableFiles": added,
        "deletedTableFiles": removed_files,
        "appendedChangelogFiles": changelog,
        "partitionsWritten": len({m.partition for m in messages}),
        "bucketsWritten": len({m.bucket_id for m in messages}),
    }
    if not copies_rows:
        deleted = sum(file.delete_row_count or 0 for file in new)
        metrics["insertedRecords"] = sum(file.row_count for file in new) - deleted
        metrics["deletedRecords"] = deleted
    return metrics
