"""Errors of the metastore's rules, one class for each kind of answer that a client can distinguish.

    MetastoreError                the request failed inside the server; nothing was changed
      NoSuchObjectError           a catalog, database, table, partition or function of that name does not exist
      UnknownDatabaseError        the database named by a request about its tables does not exist
      AlreadyExistsError          the name is taken
      InvalidObjectError          the object sent cannot be stored: a bad name, no columns, unknown type
      InvalidOperationError       the object exists but the change is not allowed
      InvalidArgumentError        an argument is invalid, such as a malformed schedule
      InvalidPartitionError       a partition's name or values do not fit the table's keys
      BadFilterError              a partition filter does not parse, or names something that is not a partition key
      NoSuchTransactionError      a transaction was named; interbed has none
      NoSuchLockError             the lock was released or its lease ran out
      ConfigValueError            a configuration key that clients may not read
      UnstorableTextError         a text has a character that the database does not keep
      AccessDeniedError           the caller lacks a privilege on an object that it sees
      AccessUnavailableError      the authorizer cannot decide at present
      StoreAccessError            a remote file system refuses the server's requests, or cannot be reached
      OutcomeUnknownError         the change may have been made, or not: nothing that belongs to it may be undone

The server maps each to the exception of Hive's interface (thrift/structs/requests.py); the message is shown to users,
and for a few of them matched by clients, so that it is Hive's text wherever Hive has one.
"""

from interbed.storage.base.errors import InterbedError, StorageAccessError, SyncFailedError


class MetastoreError(Exception):
    """The request failed inside the server; nothing was changed."""


class NoSuchObjectError(MetastoreError):
    """An object of that name does not exist."""


class UnknownDatabaseError(MetastoreError):
    """The database does not exist."""


class AlreadyExistsError(MetastoreError):
    """The name is taken."""


class InvalidObjectError(MetastoreError):
    """The object cannot be stored as it is."""


class InvalidOperationError(MetastoreError):
    """The change is not allowed."""


class InvalidArgumentError(MetastoreError):
    """An argument of the request is invalid."""


class InvalidPartitionError(MetastoreError):
    """A partition's name or values do not fit the table's keys."""


class BadFilterError(MetastoreError):
    """A partition filter cannot be understood."""


class NoSuchTransactionError(MetastoreError):
    """A transaction was named; interbed has none."""


class NoSuchLockError(MetastoreError):
    """The lock was released, or its lease ran out."""


class ConfigValueError(MetastoreError):
    """The configuration key may not be read by clients."""


class UnstorableTextError(MetastoreError):
    """A text of the request has a character that the database does not keep."""


class OutcomeUnknownError(MetastoreError):
    """The change may have been committed, or not. What belongs to it, such as a directory that was just made, must be
    kept.
    """


class StoreAccessError(MetastoreError):
    """A remote file system refuses the server's requests, or cannot be reached. The message names it."""


def is_of_a_store(error: BaseException) -> bool:
    """Return whether an error says that a file system cannot be used at present: it refuses, or does not answer."""
    if isinstance(error, SyncFailedError):
        return False
    is_refused = isinstance(error, PermissionError) and not isinstance(error, InterbedError)
    return is_refused or isinstance(error, StorageAccessError)


class UnboundedFileError(MetastoreError):
    """A file is too large, or has no size: it was not read."""


class DamagedFileError(MetastoreError):
    """A packed file cannot be unpacked."""


class AccessDeniedError(MetastoreError):
    """The caller lacks a privilege on an object that it sees, or has no principal."""


class AccessUnavailableError(MetastoreError):
    """The authorizer cannot decide at present; the call may be repeated."""
