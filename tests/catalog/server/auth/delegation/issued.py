"""Callers of delegation tokens, parts of a token, and databases, for tests."""

from collections.abc import Iterator

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken
from interbed.catalog.server.auth.principals import Mechanism, Principal
from interbed.catalog.server.database.session import SqlRepository
from tests.support.databases import open_migrated

PEER = "192.0.2.1:4711"
ANN = Principal(name="ann", mechanism=Mechanism.TOKEN, groups=frozenset({"etl", "lake"}), token_id="0011")
HIVE = Principal(name="hive", mechanism=Mechanism.CERTIFICATE)
BOB = Principal(name="bob", mechanism=Mechanism.LDAP)


class SetClock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def identifier_of(text: str) -> bytes:
    """Return the bytes of the identifier in the text of a token."""
    return HadoopToken.from_text(text).identifier.to_bytes()


def migrated(url: str) -> Iterator[SqlRepository]:
    """Yield a migrated database."""
    opened = open_migrated(url)
    yield opened
    opened.close()
