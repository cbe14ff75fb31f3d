"""Repository of the tokens and master keys that HiveServer2 keeps in the metastore.

HiveServer2 makes and reads them; the metastore stores texts. They are no tokens of this server.
"""

from collections.abc import Sequence
from typing import Protocol


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
