"""Errors on their way to the JVM: planner.thrift's kinds, for which Spark has exceptions of its own."""

import traceback
from collections.abc import Callable
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
from interbed.thrift_idl.planner.ttypes import ErrorKind, PlannerError


class RepeatedKeyError(InterbedError):
    """Rows of which each had to have a key of its own had not; nothing was changed."""


# In this order, because a later class may be the base of an earlier one.
_KINDS: tuple[tuple[type[InterbedError], int], ...] = (
    (RepeatedKeyError, ErrorKind.REPEATED_KEY),
    (CommitStateUnknownError, ErrorKind.COMMIT_STATE_UNKNOWN),
    (CommitError, ErrorKind.COMMIT_CONFLICT),
    (DatabaseNotFoundError, ErrorKind.NO_SUCH_NAMESPACE),
    (DatabaseExistsError, ErrorKind.NAMESPACE_EXISTS),
    (DatabaseNotEmptyError, ErrorKind.NAMESPACE_NOT_EMPTY),
    # Of the kinds that say that a table is missing or there, Spark shows no text.
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


def planner_error(error: Exception) -> PlannerError:
    """The error as the JVM takes it; what is not one of interbed's own is INTERNAL and carries its traceback."""
    for kind_of, kind in _KINDS:
        if isinstance(error, kind_of):
            return PlannerError(kind=kind, message=str(error))
    return PlannerError(
        kind=ErrorKind.INTERNAL, message=message_of(error), detail="".join(traceback.format_exception(error))
    )


def message_of(error: BaseException) -> str:
    """The text for the user: the message of interbed's own errors, with the class's name for others."""
    if isinstance(error, InterbedError):
        return str(error)
    return f"{type(error).__name__}: {error}"


class Guarded:
    """A handler of planner.thrift whose methods raise PlannerError and nothing else.

    Thrift's processor answers other exceptions by a message without their cause.
    """

    def __init__(self, handler: object) -> None:
        self._handler = handler

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._handler, name)

        @wraps(method)
        def guarded(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except Exception as error:
                raise planner_error(error) from error

        return guarded
