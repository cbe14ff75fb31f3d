"""The errors of storage; every error that reaches a caller derives from InterbedError (`interbed` names all).

InterbedError
├── InvalidInputError            the caller's data or arguments are wrong; nothing was changed
│   ├── SchemaMismatchError      columns or types that do not fit the table
│   ├── FilterError              a filter that does not parse or names an unknown column
│   ├── InvalidOptionError       an option with a value that it does not take
│   └── UsedTwiceError           an object for one use was used before
├── NotSupportedError            a valid request that this version does not support
│   └── MissingExtraError        an optional library is not installed; says what to install
├── CorruptFileError             a metadata or data file that can't be read; names the file
├── UnsupportedVersionError      a file of a format version that this version does not know
├── SnapshotNotFoundError        no snapshot of that id or time; names the ones that exist
├── SnapshotGoneError            a snapshot expired while it was being read; read the newest one
├── TagNotFoundError             no tag of that name; names the ones that exist
├── BranchNotFoundError          no branch of that name; names the ones that exist
├── StorageAccessError           the warehouse can't be reached, read or written
│   ├── AccessRefusedError       the object store refuses the credentials, or they have expired; nothing was changed
│   └── FileGoneError            a data file that a plan names is missing
├── LogUnavailableError          the log of a table can't be reached; its files are as they were
├── CommitError                  a commit failed
│   ├── CommitConflictError      another writer changed the same files; may be retried from a new read
│   └── CommitFailedError        retries were used up; the data files were removed, may be retried as a whole
├── CommitStateUnknownError      it is not known whether the snapshot exists; nothing was cleaned up
└── CatalogError                 see interbed.catalog.client.errors

Many derive from a built-in error as well, above all where pypaimon raises that one: callers written for it catch
ValueError for wrong input and for missing versions, RuntimeError for commits, NotImplementedError for what
is not supported.

`load_extra` loads an optional library, and says what to install where it is missing.
"""

import sys
from dataclasses import FrozenInstanceError
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn, TypeVar


class InterbedError(Exception):
    """Base of all errors of interbed."""


class InvalidInputError(InterbedError, ValueError):
    """The caller's data or arguments are wrong. Nothing was changed; correct the input and call again."""


class SchemaMismatchError(InvalidInputError):
    """Columns or types of the data do not fit the table's schema. Nothing was changed."""


class FilterError(InvalidInputError):
    """A filter does not parse, or names a column that the table does not have."""


class InvalidOptionError(InvalidInputError):
    """An option has a value that it does not take, or two options contradict each other."""


class UsedTwiceError(InvalidInputError, RuntimeError):
    """A writer or committer of one batch was used for a second one. Make a new one from its builder."""


class NotSupportedError(InterbedError, NotImplementedError):
    """The request is valid in Paimon's format, but this version of interbed does not support it."""


class MissingExtraError(NotSupportedError, ImportError):
    """An optional library is needed; the message says what to install. Nothing was changed."""


class CorruptFileError(InterbedError):
    """A metadata or data file can't be decoded. The message names the file."""


class UnsupportedVersionError(InterbedError):
    """A file has a format version that this version of interbed does not know; upgrade interbed."""


class SnapshotNotFoundError(InterbedError, LookupError, ValueError):
    """The requested snapshot id or time has no snapshot; the message names those that exist."""


class SnapshotGoneError(InterbedError):
    """The snapshot expired while it was read, and its files are deleted. Read the newest snapshot."""


class TagNotFoundError(InterbedError, LookupError, ValueError):
    """The requested tag does not exist; the message names those that exist."""


class BranchNotFoundError(InterbedError, LookupError, ValueError):
    """The requested branch does not exist; the message names those that exist."""


class StorageAccessError(InterbedError, OSError):
    """The warehouse can't be reached, read or written."""

    changed_nothing: bool = False
    """Whether it is known that the request has changed nothing."""


class AccessRefusedError(StorageAccessError):
    """The object store has refused a request because its credentials are wrong, expired, or lack a permission.

    The request has changed nothing. Give other credentials and repeat it.
    """

    changed_nothing = True


class SyncFailedError(StorageAccessError):
    """Written data may not survive a power cut: the disk failed to sync it."""


class FileGoneError(StorageAccessError):
    """A data file that a plan names is missing: most likely its snapshot has expired since. Plan the read again."""


class LogUnavailableError(InterbedError, OSError):
    """The log of a table can't be reached, read or written. Its files are unchanged; try again when it answers."""


class CommitError(InterbedError, RuntimeError):
    """A commit failed; the table is unchanged."""

    retryable: bool = False


class CommitConflictError(CommitError):
    """Another writer changed the files that this commit relies on. Read the table again and redo the work."""

    retryable = True


class CommitFailedError(CommitError):
    """The commit lost every race for the next snapshot within its retries. The same work may be retried."""

    retryable = True


class CommitStateUnknownError(InterbedError, RuntimeError):
    """It is not known whether the snapshot was created; its files were left in place.

    Look for a snapshot with this commit user and identifier before trying again; committing again with
    the same pair is safe, because commits are idempotent by it.
    """


_T = TypeVar("_T")


def plain_errors(cls: type[_T]) -> type[_T]:
    """Make a frozen data class raise an AttributeError that names the attribute for each assignment and deletion."""
    changed: Any = cls
    changed.__setattr__ = _refuse_assignment
    changed.__delattr__ = _refuse_deletion
    return cls


def _refuse_assignment(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(_message(self, name, "assign to"))


def _refuse_deletion(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(_message(self, name, "delete"))


def _message(frozen: object, name: str, action: str) -> str:
    return f"cannot {action} {name!r} of a {type(frozen).__name__}, which never changes"


# -- optional libraries ------------------------------------------------------------------------------------------------

EXTRAS = {
    "azure": "azure",
    "boto3": "aws",
    "confluent_kafka": "kafka",
    "cryptography": "jwt",
    "datasketches": "sketches",
    "duckdb": "duckdb",
    "google": "gcp",
    "gssapi": "kerberos",
    "hdfs_native": "hdfs",
    "jwt": "jwt",
    "ldap3": "ldap",
    "matplotlib": "plot",
    "obstore": "stores",
    "pandas": "pandas",
    "polars": "polars",
    "psycopg": "postgres",
    "pyiceberg": "iceberg",
    "pyspark": "spark",
}
"""The extra of interbed that installs a library, by the library's module."""


def load_extra(module: str, *, needed_by: str) -> Any:
    """Import an optional module and return it.

    `needed_by` begins the message: "to_pandas". Raises MissingExtraError when its library is not installed, or is
    incomplete. A missing dependency of an installed library is an ImportError, as usual.
    """
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or library).partition(".")[0] != library:
            raise
        raise missing_extra(library, needed_by=needed_by) from None


def is_installed(library: str) -> bool:
    """Return whether a library is installed, without loading it."""
    # A blocked module is None among the loaded modules, and find_spec raises for it.
    return sys.modules[library] is not None if library in sys.modules else find_spec(library) is not None


def missing_extra(library: str, *, needed_by: str) -> MissingExtraError:
    """Return the error that names a missing library and the command that installs it."""
    return MissingExtraError(f"{needed_by} needs {library}: pip install 'interbed[{EXTRAS[library]}]'")
