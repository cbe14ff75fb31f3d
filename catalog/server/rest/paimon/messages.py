"""The JSON of requests and responses, by the names of Paimon's OpenAPI document.

Requests may have further members, which are ignored: later clients send them.

Lists come in pages. A list is sorted by a key, which is the token of the page that ends with it: the next page begins
after that key, whether or not it still exists. A full page has a token, even if nothing follows. In a pattern, `%` at
the end stands for any text; `_` is a plain character.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from interbed.catalog.client.errors import DatabaseNotFoundError
from interbed.catalog.server.rest.interface import RestRequest
from interbed.catalog.server.rest.paimon.catalogs import ServedCatalog
from interbed.catalog.server.rest.paimon.refusals import invalid
from interbed.storage.meta.snapshot.snapshot import Snapshot


class Name(Struct):
    """The name of a table, view or function."""

    database: str
    object: str


class ConfigResponse(Struct):
    """The answer to a client that connects."""

    defaults: dict[str, str]
    overrides: dict[str, str]


# Databases.


class CreateDatabaseRequest(Struct):
    """Request for a new database."""

    name: str
    options: dict[str, str] | None = None


class AlterDatabaseRequest(Struct):
    """Properties to remove and to set."""

    removals: list[str] | None = None
    updates: dict[str, str] | None = None


class AlterDatabaseResponse(Struct):
    """Properties that were removed and set, and those to remove that did not exist."""

    removed: list[str]
    updated: list[str]
    missing: list[str]


class AuditedObject(Struct, rename="camel", kw_only=True):
    """The owner and the times of an object, in milliseconds."""

    owner: str | None = None
    created_at: int = 0
    created_by: str | None = None
    updated_at: int = 0
    updated_by: str | None = None


class DatabaseResponse(AuditedObject, kw_only=True):
    """Description of a database."""

    id: str
    name: str
    location: str
    options: dict[str, str]


# Tables.


class TableSchemaJson(Struct, rename="camel"):
    """The schema of a table. The fields have the form of schema files."""

    fields: list[dict[str, Any]]
    partition_keys: list[str] | None = None
    primary_keys: list[str] | None = None
    options: dict[str, str] | None = None
    comment: str | None = None


class NewTableRequest(Struct):
    """Request for a new table."""

    identifier: Name
    schema: TableSchemaJson


class RegisteredTableRequest(Struct):
    """A table whose files exist."""

    identifier: Name
    path: str


class RenamedTableRequest(Struct):
    """The old and the new name of a table or view."""

    source: Name
    destination: Name


class AuthorizedRequest(Struct):
    """The columns that a reader of a table asks for; without them all."""

    select: list[str] | None = None


class AlterTableRequest(Struct):
    """Changes of a schema; schema_changes.py reads them."""

    changes: list[dict[str, Any]]


class TableResponse(AuditedObject, kw_only=True):
    """A table; `id` distinguishes it from others that have had its name."""

    id: str
    database: str
    name: str
    path: str
    is_external: bool
    schema_id: int
    schema: TableSchemaJson


class ReplaceTableRequest(Struct):
    """The new schema of a table that is replaced."""

    schema: TableSchemaJson


class RollbackSchemaRequest(Struct, rename="camel"):
    """The schema that is to be the newest."""

    schema_id: int


# Snapshots.


class PartitionSizes(Struct, rename="camel"):
    """The change of the size of a partition by a commit; or its size."""

    spec: dict[str, str]
    record_count: int = 0
    file_size_in_bytes: int = 0
    file_count: int = 0
    last_file_creation_time: int = 0
    total_buckets: int = 0


class CommitRequest(Struct, rename="camel"):
    """A snapshot to add. `base_snapshot_uuid` is that of the newest one as the client knows it; older clients send
    none.
    """

    table_id: str
    snapshot: Raw
    base_snapshot_uuid: str | UnsetType | None = UNSET
    statistics: list[PartitionSizes] | None = None


class RollbackTarget(Struct, rename="camel"):
    """The snapshot or the tag that a rollback leads to."""

    type: str
    snapshot_id: int | None = None
    tag_name: str | None = None


class RollbackRequest(Struct, rename="camel"):
    """A rollback; `from_snapshot` is the newest snapshot as the client knows it."""

    instant: RollbackTarget
    from_snapshot: int | None = None


class TableSnapshotResponse(Struct, rename="camel"):
    """A snapshot with the size of the table: records of files, not yet merged."""

    snapshot: Raw
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int


# Partitions.


class PartitionResponse(PartitionSizes):
    """A partition with its size."""

    done: bool = False


class PartitionSpecsRequest(Struct):
    """Partitions by their values."""

    specs: list[dict[str, str]]


class CreatePartitionsRequest(Struct, rename="camel"):
    """Request to register partitions."""

    partition_specs: list[dict[str, str]]
    ignore_if_exists: bool | None = True


class DropPartitionsRequest(Struct, rename="camel"):
    """Partitions to remove from the metastore."""

    partition_specs: list[dict[str, str]]
    ignore_if_not_exists: bool | None = False


class PartitionFilterRequest(Struct, rename="camel"):
    """A filter of partitions, and a page of them."""

    filter: str
    partition_name_pattern: str | None = None
    max_results: int | None = None
    page_token: str | None = None


# Versions.


class CreateTagRequest(Struct, rename="camel"):
    """A new tag of a snapshot, the newest one by default."""

    tag_name: str
    snapshot_id: int | None = None
    time_retained: str | None = None
    ignore_if_exists: bool | None = False


class TagResponse(Struct, rename="camel"):
    """A tag. The time is in milliseconds, the retention as text of Java's Duration."""

    tag_name: str
    snapshot: Raw
    tag_create_time: int | None = None
    tag_time_retained: str | None = None


class CreateBranchRequest(Struct, rename="camel"):
    """A new branch, with the rows of a tag if that is given."""

    branch: str
    from_tag: str | None = None


class RenameBranchRequest(Struct, rename="camel"):
    """The new name of a branch."""

    to_branch: str


class ResetConsumerRequest(Struct, rename="camel"):
    """The next snapshot of a consumer; without one the consumer is deleted."""

    consumer_id: str
    next_snapshot_id: int | None = None


# Views.


class ViewSchemaJson(Struct):
    """The columns and the queries of a view. `dialects` are the queries of engines with a language of their own."""

    fields: list[dict[str, Any]]
    query: str
    dialects: dict[str, str] | None = None
    comment: str | None = None
    options: dict[str, str] | None = None


class NewViewRequest(Struct):
    """Request for a new view."""

    identifier: Name
    schema: ViewSchemaJson


class AlterViewRequest(Struct):
    """Changes of a view; views.py reads them."""

    changes: list[dict[str, Any]]


class ViewResponse(AuditedObject, kw_only=True):
    """Description of a view."""

    id: str
    name: str
    schema: ViewSchemaJson


# Functions.


class FunctionBody(Struct, rename="camel", kw_only=True):
    """Parameters and definitions of a function. The parameters have the form of a schema's fields."""

    input_params: list[dict[str, Any]] | None = None
    return_params: list[dict[str, Any]] | None = None
    deterministic: bool = False
    definitions: dict[str, dict[str, Any]] | None = None
    comment: str | None = None
    options: dict[str, str] | None = None


class NewFunctionRequest(FunctionBody, kw_only=True):
    """Request for a new function."""

    name: str


class AlterFunctionRequest(Struct):
    """Changes of a function; databases.py reads them."""

    changes: list[dict[str, Any]]


class FunctionResponse(AuditedObject, kw_only=True):
    """Description of a function."""

    uuid: str
    name: str
    input_params: list[dict[str, Any]] | None
    return_params: list[dict[str, Any]] | None
    deterministic: bool
    definitions: dict[str, dict[str, Any]] | None
    comment: str | None
    options: dict[str, str] | None


def snapshot_json(snapshot: Snapshot) -> Raw:
    """Return the JSON of a snapshot, as in its file."""
    return Raw(snapshot.to_json().encode())


def to_json(value: object) -> Raw:
    """Return a value as JSON."""
    return Raw(msgspec.json.encode(value))


T = TypeVar("T")


def after_changes(what: str, body: T, changes: Sequence[Mapping[str, Any]], change: Callable[[T, Any], T]) -> T:
    """Return the body of a view or function after changes. RestError with status 400 for invalid ones."""
    for each in changes:
        try:
            body = change(body, each)
        except (KeyError, TypeError) as error:
            raise invalid(f"The change {each.get('action')!r} of the {what} is invalid: {error}") from error
    return body


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


NamesAfter = Callable[[str, str, int, str], Sequence[str]]
"""Returns names in a database after one: at most a number of them, which begin with a prefix, sorted."""


def names_of_page(request: RestRequest, database: str, parameter: str, names_after: NamesAfter) -> list[str]:
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
    request: RestRequest, catalog: ServedCatalog, parameter: str, names_after: NamesAfter
) -> tuple[list[Name], str | None]:
    """Return a page of the names in all databases, and the token of the next one; `parameter` has the pattern.

    Only names of the page are read. RestError with status 400 for an invalid pattern.
    """
    pattern, length = request.query.get(parameter), page_length(request.query.get("maxResults"))
    is_database, is_meant = name_filter(request, "databaseNamePattern"), matches(pattern)
    token, found = request.query.get("pageToken") or "", list[Name]()
    # The names of databases have no dots, so that this is the order of the tokens.
    for start in sorted(f"{database}." for database in catalog.list_databases() if is_database(database)):
        if start < token and not token.startswith(start):
            continue
        after, database = token.removeprefix(start) if token.startswith(start) else "", start[:-1]
        try:
            names = names_after(database, after, length - len(found), prefix_of(pattern))
        except DatabaseNotFoundError:
            # It was dropped since it was listed.
            continue
        found += [Name(database, name) for name in names if is_meant(name)]
        if len(found) == length:
            return found, f"{database}.{found[-1].object}"
    return found, None


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
