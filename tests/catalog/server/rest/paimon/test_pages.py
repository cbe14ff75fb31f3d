"""Pages of the names in all databases: together they are the sorted list, and no page reads more than its names."""

from collections.abc import Mapping, Sequence
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.client.errors import DatabaseNotFoundError
from interbed.catalog.server.rest.interface import RestRequest
from interbed.catalog.server.rest.paimon.catalogs import ServedCatalog
from interbed.catalog.server.rest.paimon.messages import Name, global_page
from interbed.catalog.server.thrift.edge.call import ClientSession

NAMES = st.text("ab$-._", min_size=1, max_size=3)
DATABASES = st.dictionaries(st.text("ab$-_", min_size=1, max_size=3), st.sets(NAMES, max_size=6), max_size=5)


class Databases:
    """Names in databases, and how many of them were read. A database without names has just been dropped."""

    def __init__(self, names: Mapping[str, set[str]]) -> None:
        self.names = names
        self.read = 0

    def list_databases(self) -> list[str]:
        return list(self.names)

    def names_after(self, database: str, after: str, limit: int, prefix: str) -> Sequence[str]:
        if not self.names[database]:
            raise DatabaseNotFoundError(database)
        every = sorted(self.names[database])
        found = [name for name in every if name > after and name.startswith(prefix)][:limit]
        self.read += len(found)
        return found


@given(DATABASES, st.integers(1, 4), st.sampled_from(["", "a%", "a", "%", "b.%"]), st.sampled_from(["", "a%", "b"]))
def test_pages_are_the_sorted_list(
    names: dict[str, set[str]], length: int, pattern: str, database_pattern: str
) -> None:
    def matches(name: str, pattern: str) -> bool:
        return not pattern or (name.startswith(pattern[:-1]) if pattern.endswith("%") else name == pattern)

    databases = Databases(names)
    meant = {
        f"{database}.{name}": Name(database, name)
        for database in names
        if matches(database, database_pattern)
        for name in names[database]
        if matches(name, pattern)
    }
    query = {"maxResults": str(length), "tableNamePattern": pattern, "databaseNamePattern": database_pattern}
    found: list[Name] = []
    token: str | None = ""
    while token is not None:
        asked = {**query, "pageToken": token} if token else query
        request = RestRequest(parts={}, query=asked, headers={}, body=b"", session=ClientSession(peer="test"))
        before = databases.read
        page, token = global_page(request, cast("ServedCatalog", databases), "tableNamePattern", databases.names_after)
        assert len(page) <= length
        if pattern.endswith("%") or not pattern:
            assert databases.read - before == len(page)
        found += page
    assert found == [meant[key] for key in sorted(meant)]
