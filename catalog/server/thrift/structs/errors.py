"""Conversion of an error of the rules to an exception that the called method declares.

A client decodes only the exceptions that its interface definition lists for the method, and treats any other as a
broken reply. So each error has a list of exceptions, best first; the first that the method declares is sent.

In a few places Hive raises an exception that the method does not declare (`UndeclaredError`): clients see an internal
error (TApplicationException), and Hive's own expect it.
"""

from typing import Any

from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    ConfigValueError,
    InvalidArgumentError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidPartitionError,
    MetastoreError,
    NoSuchLockError,
    NoSuchObjectError,
    NoSuchTransactionError,
    UnknownDatabaseError,
)
from interbed.storage.base.shown_text import without_credentials
from interbed.thrift_idl.hive_metastore import ttypes


class UndeclaredError(MetastoreError):
    """A request is refused where Hive's clients expect an internal error; nothing has failed in the server."""


def shown_message(error: Exception) -> str:
    """Return the text of an error for a client: a location in it has no credentials."""
    return without_credentials(str(error))


_PREFERENCES: dict[type[MetastoreError], tuple[Any, ...]] = {
    AccessDeniedError: (
        ttypes.MetaException,
        ttypes.InvalidOperationException,
        ttypes.InvalidObjectException,
        ttypes.NoSuchObjectException,
    ),
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
    InvalidArgumentError: (ttypes.InvalidInputException,),
    InvalidPartitionError: (ttypes.InvalidPartitionException,),
    NoSuchLockError: (ttypes.NoSuchLockException,),
    NoSuchTransactionError: (ttypes.NoSuchTxnException,),
    ConfigValueError: (ttypes.ConfigValSecurityException,),
}


def declared_exception(error: MetastoreError, declared: dict[Any, str]) -> tuple[str, Any] | None:
    """Return the field of the method's result and the exception for it; None if the method declares none that fits.

    `declared` maps the exception classes of the method to the names of their fields.
    """
    if isinstance(error, UndeclaredError):
        return None
    for kind in type(error).__mro__:
        for exception in _PREFERENCES.get(kind, ()):
            if exception in declared:
                return declared[exception], exception(message=shown_message(error))
    if ttypes.MetaException in declared:
        return declared[ttypes.MetaException], ttypes.MetaException(message=shown_message(error))
    return None
