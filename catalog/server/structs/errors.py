"""From an error of the rules to the exception that the called method declares.

A client decodes only what its interface definition lists for the method, and takes anything else for a broken reply.
So each error has a list of exceptions, best first, of which the first that the method declares is sent.

The calls that add and drop a single constraint are the exception. Hive answers them with an InvalidObjectException that
they do not declare, which reaches a client as an internal error (TApplicationException); Hive's clients expect that.
"""

from typing import Any

from interbed.catalog.metastore.errors import (
    AlreadyExistsError,
    ConfigValueError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidPartitionError,
    MetastoreError,
    NoSuchLockError,
    NoSuchObjectError,
    NoSuchTransactionError,
    UnknownDatabaseError,
)
from interbed.thrift_idl.hive_metastore import ttypes

_PREFERENCES: dict[type[MetastoreError], tuple[Any, ...]] = {
    NoSuchObjectError: (
        ttypes.NoSuchObjectException,
        ttypes.UnknownTableException,
        ttypes.InvalidOperationException,
        ttypes.InvalidObjectException,
    ),
    UnknownDatabaseError: (ttypes.UnknownDBException, ttypes.NoSuchObjectException),
    AlreadyExistsError: (ttypes.AlreadyExistsException, ttypes.InvalidOperationException),
    InvalidObjectError: (ttypes.InvalidObjectException, ttypes.InvalidOperationException),
    InvalidOperationError: (ttypes.InvalidOperationException,),
    InvalidPartitionError: (ttypes.InvalidPartitionException,),
    NoSuchLockError: (ttypes.NoSuchLockException,),
    NoSuchTransactionError: (ttypes.NoSuchTxnException,),
    ConfigValueError: (ttypes.ConfigValSecurityException,),
}

_UNDECLARED_IN_HIVE = frozenset(
    (
        "add_primary_key",
        "add_foreign_key",
        "add_unique_constraint",
        "add_not_null_constraint",
        "add_default_constraint",
        "add_check_constraint",
        "drop_constraint",
    )
)
"""Methods whose clients take a bad name for an internal error."""


def declared_exception(method: str, error: MetastoreError, declared: dict[Any, str]) -> tuple[str, Any] | None:
    """The field of the method's result and the exception to put there; None if the method declares nothing that fits,
    or if Hive sends what it does not declare.

    `declared` maps the exception classes of the method to the names of their fields.
    """
    if is_undeclared_in_hive(method, error):
        return None
    for kind in type(error).__mro__:
        for exception in _PREFERENCES.get(kind, ()):
            if exception in declared:
                return declared[exception], exception(message=str(error))
    if ttypes.MetaException in declared:
        return declared[ttypes.MetaException], ttypes.MetaException(message=str(error))
    return None


def is_undeclared_in_hive(method: str, error: MetastoreError) -> bool:
    """Whether a refusal of this method is an internal error to Hive's clients, though nothing failed in the server."""
    return method in _UNDECLARED_IN_HIVE and isinstance(error, NoSuchObjectError | InvalidObjectError)
