"""Errors of catalogs; all derive from CatalogError, and that from InterbedError.

CatalogError
├── DatabaseNotFoundError     names the database and the catalog
├── DatabaseExistsError
├── DatabaseNotEmptyError     drop with cascade, or drop its tables first
├── TableNotFoundError
├── TableExistsError
├── ViewNotFoundError
├── PartitionExistsError
├── NotAnInterbedTableError   the metastore's table is of another format
├── CatalogUnavailableError   the metastore can't be reached; may be retried
│   └── CallStateUnknownError the connection broke after a call was sent: it may have been carried out
├── CatalogAccessError        the server refuses the credentials, or they lack a permission
├── LockError                 the lock of a table was not granted in time; may be retried
├── LockGoneError             the metastore does not know the lock any more
└── TableModifiedError        another client changed the table's entry first
"""

from interbed.storage.base.errors import (
    CommitError,
    CorruptFileError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    UnsupportedVersionError,
)

UNREADABLE = (CorruptFileError, UnsupportedVersionError, NotSupportedError, InvalidInputError)
"""Errors of opening a table that exists, but that this version can't read."""


class CatalogError(InterbedError):
    """Base of the errors of catalogs."""


class DatabaseNotFoundError(CatalogError, LookupError):
    """The catalog has no database of that name."""


class DatabaseExistsError(CatalogError):
    """The catalog has a database of that name already."""


class DatabaseNotEmptyError(CatalogError):
    """The database still has tables; drop it with cascade, or drop its tables first."""


class TableNotFoundError(CatalogError, LookupError):
    """The catalog has no table of that name."""


class TableExistsError(CatalogError):
    """The catalog has a table of that name already."""


class UnregisteredTableError(TableNotFoundError, TableExistsError):
    """The metastore does not know the table, but its files exist: it can be neither opened nor created."""


class ViewNotFoundError(CatalogError, LookupError):
    """The catalog has no view of that name."""


class FunctionNotFoundError(CatalogError, LookupError):
    """The catalog has no function of that name."""


class FunctionExistsError(CatalogError):
    """The catalog has a function of that name already."""


class PartitionExistsError(CatalogError):
    """The table has a partition of these values already."""


class NotAnInterbedTableError(CatalogError):
    """The metastore has a table of that name in another format; query it with the engine that made it."""

    format_entry: object = None
    """The metastore's entry of a format table, for which the request is not."""


class CatalogUnavailableError(CatalogError, ConnectionError):
    """The metastore can't be reached; the message names its address. The call may be repeated."""


class CallStateUnknownError(CatalogUnavailableError):
    """The connection broke after a change was sent: check whether it was executed before repeating it."""


class CatalogAccessError(CatalogError, PermissionError):
    """The server of the catalog refuses the credentials, or they lack a permission. Nothing was changed."""


class LockError(CatalogError, CommitError, TimeoutError):
    """The lock of a table was not granted in time; the message names its possible holder. The call may be repeated."""

    retryable = True


class TableModifiedError(CatalogError):
    """A compare-and-swap found another value: another client changed the table first.

    Read it again and decide again.
    """


class LockGoneError(CatalogError):
    """The metastore does not know the lock (any more): it was released, or its lease expired."""
