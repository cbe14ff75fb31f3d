"""Pages of lists, and patterns of names.

A list is sorted by a key, which is the token of the page that ends with it: the next page begins after that key,
whether or not it still exists. A full page has a token, even if nothing follows. In a pattern, `%` at the end stands
for any text; `_` is a plain character.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from interbed.catalog.client.errors import DatabaseNotFoundError
from interbed.catalog.server.rest.interface import RestRequest
from interbed.catalog.server.rest.paimon.catalogs.served import ServedCatalog
from interbed.catalog.server.rest.paimon.messages import Name
from interbed.catalog.server.rest.paimon.refusals import invalid

T = TypeVar("T")

PAGE_MAX = 1000
"""The longest page, and that of a request without a length."""


def page_length(given: str | int | None) -> int:
    """Return the length of a page, given as text or a number. RestError with status 400 for other text."""
    if given is None or given == "":
        return PAGE_MAX
    try:
        length = int(given)
    except ValueError:
        raise invalid(f"maxResults is a number, not {given!r}.") from None
    return min(length, PAGE_MAX) if length > 0 else PAGE_MAX


def page(request: RestRequest, items: Sequence[T], key: Callable[[T], str]) -> tuple[list[T], str | None]:
    """Return a page of the items that the request asks for, and the token of the next one, None at the end."""
    return cut(items, key, request.query.get("pageToken"), request.query.get("maxResults"))


def cut(
    items: Sequence[T],
    key: Callable[[T], str],
    token: str | None,
    length: str | int | None,
    *,
    descending: bool = False,
) -> tuple[list[T], str | None]:
    """Return the items after a token, sorted by their keys, and the token of the next page."""
    longest = page_length(length)
    ordered = sorted(items, key=key, reverse=descending)
    if token:
        ordered = [each for each in ordered if (key(each) < token if descending else key(each) > token)]
    found = ordered[:longest]
    return found, key(found[-1]) if len(found) == longest else None


def names_of_page(
    request: RestRequest, database: str, parameter: str, names_after: Callable[[str, str, int, str], list[str]]
) -> list[str]:
    """Return the names of a page in a database; `parameter` has the pattern, whose beginning bounds what is read.

    RestError with status 400 for an invalid pattern.
    """
    pattern, length = request.query.get(parameter), page_length(request.query.get("maxResults"))
    is_meant = matches(pattern)
    found = names_after(database, request.query.get("pageToken") or "", length, prefix_of(pattern))
    return [name for name in found if is_meant(name)]


def prefix_of(pattern: str | None) -> str:
    """Return the beginning of all names that a pattern matches; without one it is empty."""
    return (pattern or "").partition("%")[0]


def global_page(
    request: RestRequest, catalog: ServedCatalog, parameter: str, names_in: Callable[[str], Sequence[str]]
) -> tuple[list[Name], str | None]:
    """Return a page of the names in all databases, and the token of the next one; `parameter` has the pattern.

    RestError with status 400 for an invalid pattern.
    """
    is_database, is_meant = name_filter(request, "databaseNamePattern"), name_filter(request, parameter)
    names: list[Name] = []
    for database in filter(is_database, catalog.list_databases()):
        try:
            names += [Name(database, each) for each in filter(is_meant, names_in(database))]
        except DatabaseNotFoundError:
            # It was dropped since it was listed.
            continue
    return page(request, names, lambda name: f"{name.database}.{name.object}")


def name_filter(request: RestRequest, parameter: str) -> Callable[[str], bool]:
    """Return the condition of a pattern in the query. RestError with status 400 for an invalid pattern."""
    return matches(request.query.get(parameter))


def matches(pattern: str | None) -> Callable[[str], bool]:
    """Return the condition of a pattern; without one every name matches. RestError with status 400."""
    if not pattern:
        return lambda name: True
    prefix, percent, rest = pattern.partition("%")
    if rest:
        raise invalid(f"A pattern has '%' at its end only, not as in {pattern!r}.")
    if not percent:
        return lambda name: name == pattern
    return lambda name: name.startswith(prefix)
