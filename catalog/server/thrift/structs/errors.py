"""From an error of the rules to the exception that the called method declares.

A client decodes only what its interface definition lists for the method, and takes anything else for a broken reply.
So each error has a list of exceptions, best first, of which the first that the method declares is sent.

In a few places Hive answers with what the method does not declare (`UndeclaredError`): clients see an internal error
(TApplicationException), and Hive's own expect it.
"""

from typing import Any

from interbed.catalog.server.service.errors import (
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
    """What an error says to a client: a location in it has no credentials."""
    return without_credentials(str(error))


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
    InvalidArgumentError: (ttypes.InvalidInputException,),
    InvalidPartitionError: (ttypes.InvalidPartitionException,),
    NoSuchLockError: (ttypes.NoSuchLockException,),
    NoSuchTransactionError: (ttypes.NoSuchTxnException,),
    ConfigValueError: (ttypes.ConfigValSecurityException,),
}


def declared_exception(error: MetastoreError, declared: dict[Any, str]) -> tuple[str, Any] | None:
    """The field of the method's result and the exception to put there; None if the method declares nothing that fits.

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
