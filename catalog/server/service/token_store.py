"""The token store of HiveServer2 (`hive.cluster.delegation.token.store.class` = DBTokenStore) in the metastore.

Several HiveServer2 share their delegation tokens and master keys by it. Both are secrets: their holder acts for every
user of HiveServer2. So administrators alone may read and write them, and a server that does not know its
administrators keeps none. Tokens of this store are not accepted by this server.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.secured import SecuredService, needs, secured, the_server
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    InvalidObjectError,
    MetastoreError,
    NoSuchObjectError,
)


class TokenStore(Protocol):
    """Tokens by their identifiers, and master keys by their ids, in a transaction."""

    def add_token(self, identifier: str, token: str) -> bool:
        """Store a token; False if its identifier is taken."""
        ...

    def token(self, identifier: str) -> str | None: ...
    def remove_token(self, identifier: str) -> bool:
        """Remove a token, and return whether it was stored."""
        ...

    def identifiers(self) -> Sequence[str]:
        """Return the identifiers of all tokens, in order."""
        ...

    def add_key(self, content: str) -> int:
        """Store a new master key, and return its id."""
        ...

    def replace_key(self, key_id: int, content: str) -> bool:
        """Replace a master key, and return whether it was stored."""
        ...

    def remove_key(self, key_id: int) -> bool:
        """Remove a master key, and return whether it was stored."""
        ...

    def keys(self) -> Sequence[str]:
        """Return the contents of all master keys, the oldest first."""
        ...


T = TypeVar("T")

IDENTIFIER_CHARACTERS_MAX = 1000
"""The longest identifier of a token; Hive's own database takes 767."""

CONTENT_CHARACTERS_MAX = 16 * 1024
"""The longest token or master key; Hive's own database takes 767."""

KEY_ID_MAX = 2**31 - 1
"""The last id of a master key that Hive's interface can express."""


class StoreTransaction(Protocol):
    """One unit of work on a database with the token store."""

    @property
    def token_store(self) -> TokenStore: ...


class TokenStoreRepository(Protocol):
    """Database with the token store: the metastore's."""

    def read(self, work: Callable[[StoreTransaction], T]) -> T: ...
    def write(self, work: Callable[[StoreTransaction], T]) -> T: ...


class TokenStoreService(SecuredService):
    """The calls of HiveServer2's token store, as Hive's metastore answers them."""

    def __init__(self, store: TokenStoreRepository) -> None:
        self._store = store

    @secured(needs(Privilege.ALL, the_server))
    def add_token(self, identifier: str, token: str) -> bool:
        """Store a token; False if its identifier is taken. InvalidObjectError for texts that are empty or too long."""
        self._check_is_on()
        _check(identifier, "The identifier of a token", IDENTIFIER_CHARACTERS_MAX)
        _check(token, "A token", CONTENT_CHARACTERS_MAX)
        return self._store.write(lambda transaction: transaction.token_store.add_token(identifier, token))

    @secured(needs(Privilege.ALL, the_server))
    def token(self, identifier: str) -> str | None:
        """Return a token, None if it is not stored."""
        self._check_is_on()
        return self._store.read(lambda transaction: transaction.token_store.token(identifier))

    @secured(needs(Privilege.ALL, the_server))
    def remove_token(self, identifier: str) -> bool:
        """Remove a token, and return whether it was stored."""
        self._check_is_on()
        return self._store.write(lambda transaction: transaction.token_store.remove_token(identifier))

    @secured(needs(Privilege.ALL, the_server))
    def identifiers(self) -> Sequence[str]:
        """Return the identifiers of all tokens, in order."""
        self._check_is_on()
        return self._store.read(lambda transaction: transaction.token_store.identifiers())

    @secured(needs(Privilege.ALL, the_server))
    def add_key(self, content: str) -> int:
        """Store a new master key, and return its id. InvalidObjectError for texts that are empty or too long."""
        self._check_is_on()
        _check(content, "A master key", CONTENT_CHARACTERS_MAX)

        def work(transaction: StoreTransaction) -> int:
            key_id = transaction.token_store.add_key(content)
            if key_id > KEY_ID_MAX:
                raise MetastoreError(f"the ids of master keys are used up: Hive's interface has {KEY_ID_MAX}")
            return key_id

        return self._store.write(work)

    @secured(needs(Privilege.ALL, the_server))
    def replace_key(self, key_id: int, content: str) -> None:
        """Replace a master key. NoSuchObjectError, InvalidObjectError."""
        self._check_is_on()
        _check(content, "A master key", CONTENT_CHARACTERS_MAX)
        if not self._store.write(lambda transaction: transaction.token_store.replace_key(key_id, content)):
            raise NoSuchObjectError(f"Key is not found with keyId: {key_id}")

    @secured(needs(Privilege.ALL, the_server))
    def remove_key(self, key_id: int) -> bool:
        """Remove a master key, and return whether it was stored."""
        self._check_is_on()
        return self._store.write(lambda transaction: transaction.token_store.remove_key(key_id))

    @secured(needs(Privilege.ALL, the_server))
    def keys(self) -> Sequence[str]:
        """Return the contents of all master keys, the oldest first."""
        self._check_is_on()
        return self._store.read(lambda transaction: transaction.token_store.keys())

    def _check_is_on(self) -> None:
        """Raise AccessDeniedError where every client may do everything."""
        if not self._access.is_on:
            raise AccessDeniedError(
                "this server keeps no tokens of HiveServer2, because every client could read them: set "
                "access_authorizer to builtin and HiveServer2's user in access_admins, or let HiveServer2 keep its "
                "tokens in ZooKeeper or in memory (hive.cluster.delegation.token.store.class)"
            )


def _check(text: str, what: str, characters_max: int) -> None:
    if not text or len(text) > characters_max:
        raise InvalidObjectError(f"{what} has {len(text)} characters; it has 1 to {characters_max}")
