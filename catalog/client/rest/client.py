"""Calls of a Paimon REST server, by resource (docs/static/rest-catalog-open-api.yaml of Paimon, version 1.4).

Parts of a path are form-encoded, as Java's URLEncoder does: `$` is `%24`, a blank is `+`. A branch is the table
`t$branch_b`. Lists come in pages; the token of the next page is missing on the last one. `RestFunctions` is the part of
a catalog that makes the calls about functions.

Dropped objects, which a server of interbed's keeps, have its own interface `/interbed` beside `/paimon`:

    GET  /interbed/v1/{prefix}/dropped?database=
    POST /interbed/v1/{prefix}/databases/{database}[/tables/{table}]/undrop | purge

So have rows that the server reads:

    POST /interbed/v1/{prefix}/databases/{database}/tables/{table}/rows

Other servers have no such interface.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from interbed.catalog.client.errors import (
    CatalogError,
    DatabaseExistsError,
    DatabaseNotFoundError,
    FunctionExistsError,
    FunctionNotFoundError,
    TableExistsError,
    TableNotFoundError,
)
from interbed.catalog.client.functions import CatalogFunction, CatalogFunctions, FunctionChange, FunctionName
from interbed.catalog.client.identifier import BRANCH_PREFIX, SEPARATOR, Identifier, check_database_name
from interbed.catalog.client.recovery import DroppedEntry
from interbed.catalog.client.rest.grants import RestGrants
from interbed.catalog.client.rest.http import (
    CONFLICT,
    NOT_FOUND,
    RestHttp,
    RestRefusedError,
    StreamedBody,
    catalog_error,
    encoded,
)
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.meta.paths import MAIN_BRANCH

OWN_INTERFACE, PAIMON_INTERFACE = "interbed", "paimon"

_MISSING, _TAKEN = "NOSUCHOBJECT", "ALREADYEXISTS"


class RestDrops:
    """The dropped objects of one catalog of a server. Thread-safe; close it after use."""

    def __init__(self, http: RestHttp, prefix: str) -> None:
        self._http = http.beside(OWN_INTERFACE)
        self._root = f"/v1/{encoded(prefix)}"

    def close(self) -> None:
        """Close the idle connections."""
        self._http.close()

    def dropped(self, database: str | None) -> Sequence[Mapping[str, Any]]:
        """Return the dropped objects as JSON, the latest first; NotSupportedError for a server that keeps none."""
        try:
            found = self._http.get(f"{self._root}/dropped", {} if database is None else {"database": database})
        except RestRefusedError as error:
            if error.status == NOT_FOUND:
                raise NotSupportedError(
                    f"The server of this catalog keeps no dropped objects that clients put back: it answers {error}"
                ) from error
            raise catalog_error(error) from error
        listed = found.get("dropped") if isinstance(found, Mapping) else None
        if not isinstance(listed, list):
            raise NotSupportedError(f"{self._http.uri} is not the interface of interbed's server for dropped objects.")
        return listed

    def undrop(self, entry: DroppedEntry, new_name: str | None) -> None:
        """Put the object of a drop back; TableNotFoundError, TableExistsError, DatabaseExistsError, and
        InvalidInputError if its directory is taken or its database does not exist.
        """
        more = {} if new_name is None else {"as": new_name}
        try:
            self._http.post(f"{self._path(entry)}/undrop", {"id": int(entry.id), **more})
        except RestRefusedError as error:
            raise _error(entry, error) from error

    def purge(self, entry: DroppedEntry) -> bool:
        """Delete the object of a drop for good; return whether all of it is deleted. TableNotFoundError."""
        try:
            answer = self._http.post(f"{self._path(entry)}/purge", {"id": int(entry.id)})
        except RestRefusedError as error:
            raise _error(entry, error) from error
        return isinstance(answer, Mapping) and answer.get("purged") is True

    def _path(self, entry: DroppedEntry) -> str:
        database = f"{self._root}/databases/{encoded(entry.database)}"
        return database if entry.name is None else f"{database}/tables/{encoded(entry.name)}"


def _error(entry: DroppedEntry, error: RestRefusedError) -> Exception:
    if error.is_missing(_MISSING):
        return TableNotFoundError(str(error))
    if error.status == CONFLICT and error.resource_type == _TAKEN:
        return (DatabaseExistsError if entry.name is None else TableExistsError)(str(error))
    if error.status == CONFLICT:
        return InvalidInputError(str(error))
    return catalog_error(error)


Json = dict[str, Any]


def object_name(identifier: Identifier, branch: str = MAIN_BRANCH) -> str:
    """Return the name of a table, or of a branch of it, in paths."""
    return identifier.table if branch == MAIN_BRANCH else f"{identifier.table}{SEPARATOR}{BRANCH_PREFIX}{branch}"


class RestRows:
    """Rows of one catalog that the server reads for its clients. Thread-safe."""

    def __init__(self, http: RestHttp, prefix: str) -> None:
        self._http = http
        self._root = f"/v1/{encoded(prefix)}"

    @property
    def uri(self) -> str:
        """Address of the interface, for messages."""
        return self._http.uri

    def open(self, identifier: Identifier, query: Json) -> StreamedBody:
        """Return the rows of a query as a stream in Arrow's IPC format, which the caller closes."""
        path = f"{self._root}/databases/{encoded(identifier.database)}/tables/{encoded(identifier.table)}/rows"
        try:
            return self._http.post_for_stream(path, query)
        except RestRefusedError as error:
            raise catalog_error(error) from error


class RestClient:
    """Calls of one catalog of a server, whose paths begin with `/v1/<prefix>`. Thread-safe."""

    def __init__(self, http: RestHttp, prefix: str) -> None:
        self._http = http
        self._prefix = prefix
        self._root = f"/v1/{encoded(prefix)}" if prefix else "/v1"

    @property
    def uri(self) -> str:
        """Address of the server, for messages."""
        return self._http.uri

    def drops(self) -> RestDrops | None:
        """Return the calls about dropped objects, if the address is that of interbed's server; close them after use."""
        return RestDrops(self._http, self._prefix) if self._is_of_interbed else None

    def grants(self) -> RestGrants | None:
        """Return the calls about roles and grants, if the address is that of interbed's server."""
        return RestGrants(self._http.beside(OWN_INTERFACE), self._prefix) if self._is_of_interbed else None

    def rows(self) -> RestRows | None:
        """Return the calls about rows that the server reads, if the address is that of interbed's server."""
        # A table has no end at which connections would be closed.
        return RestRows(self._http.beside(OWN_INTERFACE, idle_max=0), self._prefix) if self._is_of_interbed else None

    @property
    def _is_of_interbed(self) -> bool:
        return bool(self._prefix) and self._http.uri.strip().rstrip("/").endswith(f"/{PAIMON_INTERFACE}")

    def close(self) -> None:
        """Close the idle connections."""
        self._http.close()

    # -- databases -------------------------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        """Return the names of all databases."""
        return [str(name) for name in self._all(f"{self._root}/databases", "databases")]

    def create_database(self, name: str, options: Mapping[str, str]) -> None:
        """Create a database with these options."""
        self._http.post(f"{self._root}/databases", {"name": name, "options": dict(options)})

    def database(self, name: str) -> Json:
        """Return a database: `name`, `location`, `options`."""
        return self._object(self._database(name))

    def alter_database(self, name: str, removals: Sequence[str], updates: Mapping[str, str]) -> None:
        """Set and remove options of a database."""
        body = {"removals": list(removals), "updates": dict(updates)}
        self._http.post(self._database(name), body, repeatable=True)

    def drop_database(self, name: str) -> None:
        """Drop a database with its tables."""
        self._http.delete(self._database(name))

    # -- tables ----------------------------------------------------------------------------------------------------

    def tables(self, database: str, kind: str | None = None) -> list[str]:
        """Return the names of the tables of a database, or of those of one type."""
        more = {} if kind is None else {"tableType": kind}
        return [str(name) for name in self._all(f"{self._database(database)}/tables", "tables", **more)]

    def create_table(self, identifier: Identifier, schema: Json) -> None:
        """Create a table of a schema; its location is that of the option `path`, or the server's choice."""
        body = {"identifier": _name(identifier), "schema": schema}
        self._http.post(f"{self._database(identifier.database)}/tables", body)

    def table(self, identifier: Identifier, branch: str = MAIN_BRANCH) -> Json:
        """Return a table: `id`, `path`, `isExternal`, `schemaId`, `schema`."""
        return self._object(self._table(identifier, branch))

    def authorize(self, identifier: Identifier, branch: str, columns: Sequence[str]) -> Json:
        """Return the row filters and column masks of a table for the caller that reads columns: `filter`,
        `columnMasking`. RestRefusedError for columns that it may not read.
        """
        path = f"{self._table(identifier, branch)}/auth"
        return self._checked(path, self._http.post(path, {"select": list(columns)}, repeatable=True))

    def table_token(self, identifier: Identifier) -> Json:
        """Return the token for the files of a table: `token`, `expiresAtMillis`."""
        return self._object(f"{self._table(identifier)}/token")

    def alter_table(self, identifier: Identifier, changes: Sequence[Json], branch: str = MAIN_BRANCH) -> None:
        """Apply changes of the schema, all or none."""
        self._http.post(self._table(identifier, branch), {"changes": list(changes)})

    def drop_table(self, identifier: Identifier) -> None:
        """Drop a table; the server deletes the files of a managed one."""
        self._http.delete(self._table(identifier))

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Rename a table, perhaps into another database."""
        self._http.post(f"{self._root}/tables/rename", {"source": _name(source), "destination": _name(target)})

    def commit(
        self,
        identifier: Identifier,
        branch: str,
        *,
        table_id: str,
        base_uuid: str | None,
        snapshot: Json,
        statistics: Sequence[Json],
    ) -> bool:
        """Commit a snapshot; return False when another one has its id.

        It is sent once: the caller settles an unknown outcome (CallStateUnknownError) by the content of the snapshot.
        """
        body: Json = {"tableId": table_id, "snapshot": snapshot, "statistics": list(statistics)}
        if base_uuid is not None:
            body["baseSnapshotUuid"] = base_uuid
        answer = self._http.post(f"{self._table(identifier, branch)}/commit", body)
        return isinstance(answer, Mapping) and answer.get("success") is True

    def roll_back(self, identifier: Identifier, branch: str, version: int | str) -> None:
        """Roll back to the snapshot of an id, or to that of a tag."""
        instant: Json = (
            {"type": "tag", "tagName": version}
            if isinstance(version, str)
            else {"type": "snapshot", "snapshotId": version}
        )
        self._http.post(f"{self._table(identifier, branch)}/rollback", {"instant": instant}, repeatable=True)

    def mark_partitions_done(self, identifier: Identifier, specs: Sequence[Mapping[str, str]]) -> None:
        """Mark partitions as done; a table without `metastore.partitioned-table` is refused with 501."""
        body = {"specs": [dict(spec) for spec in specs]}
        self._http.post(f"{self._table(identifier)}/partitions/mark", body, repeatable=True)

    # -- branches --------------------------------------------------------------------------------------------------

    def create_branch(self, identifier: Identifier, name: str, tag: str | None) -> None:
        """Create a branch: empty, or with the snapshot of a tag."""
        body: Json = {"branch": name}
        if tag is not None:
            body["fromTag"] = tag
        self._http.post(f"{self._table(identifier)}/branches", body)

    def drop_branch(self, identifier: Identifier, name: str) -> None:
        """Drop a branch of a table."""
        self._http.delete(f"{self._table(identifier)}/branches/{encoded(name)}")

    def rename_branch(self, identifier: Identifier, name: str, new_name: str) -> None:
        """Rename a branch of a table."""
        self._http.post(f"{self._table(identifier)}/branches/{encoded(name)}/rename", {"toBranch": new_name})

    def fast_forward(self, identifier: Identifier, name: str) -> None:
        """Replace the state of the table by that of a branch."""
        self._http.post(f"{self._table(identifier)}/branches/{encoded(name)}/forward", {}, repeatable=True)

    # -- views -----------------------------------------------------------------------------------------------------

    def views(self, database: str) -> list[str]:
        """Return the names of the views of a database."""
        return [str(name) for name in self._all(f"{self._database(database)}/views", "views")]

    def view(self, identifier: Identifier) -> Json:
        """Return a view: `name` and `schema`."""
        return self._object(self._view(identifier))

    def create_view(self, identifier: Identifier, schema: Json) -> None:
        """Create a view of a schema."""
        body = {"identifier": _name(identifier), "schema": schema}
        self._http.post(f"{self._database(identifier.database)}/views", body)

    def alter_view(self, identifier: Identifier, changes: Sequence[Json]) -> None:
        """Apply changes of a view, all or none."""
        self._http.post(self._view(identifier), {"changes": list(changes)})

    def drop_view(self, identifier: Identifier) -> None:
        """Drop the view of a name."""
        self._http.delete(self._view(identifier))

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        """Rename a view, perhaps into another database."""
        self._http.post(f"{self._root}/views/rename", {"source": _name(source), "destination": _name(target)})

    # -- functions -------------------------------------------------------------------------------------------------

    def functions(self, database: str) -> list[str]:
        """Return the names of the functions of a database."""
        return [str(name) for name in self._all(f"{self._database(database)}/functions", "functions")]

    def function(self, name: FunctionName) -> Json:
        """Return a function with its parameters and definitions."""
        return self._object(self._function(name))

    def create_function(self, database: str, function: Json) -> None:
        """Create a function, which has its name."""
        self._http.post(f"{self._database(database)}/functions", function)

    def alter_function(self, name: FunctionName, changes: Sequence[Json]) -> None:
        """Apply changes of a function, all or none."""
        self._http.post(self._function(name), {"changes": list(changes)})

    def drop_function(self, name: FunctionName) -> None:
        """Drop the function of a name."""
        self._http.delete(self._function(name))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _database(self, name: str) -> str:
        return f"{self._root}/databases/{encoded(name)}"

    def _table(self, identifier: Identifier, branch: str = MAIN_BRANCH) -> str:
        return f"{self._database(identifier.database)}/tables/{encoded(object_name(identifier, branch))}"

    def _view(self, identifier: Identifier) -> str:
        return f"{self._database(identifier.database)}/views/{encoded(identifier.table)}"

    def _function(self, name: FunctionName) -> str:
        return f"{self._database(name.database)}/functions/{encoded(name.function)}"

    def _object(self, path: str) -> Json:
        return self._checked(path, self._http.get(path))

    def _checked(self, path: str, found: Any) -> Json:
        if not isinstance(found, dict):
            raise CatalogError(f"{self.uri} answers {path} without a JSON object; check the option 'uri'.")
        return found

    def _all(self, path: str, member: str, **query: str) -> Iterator[Any]:
        """Return the elements of all pages of a list."""
        token: str | None = None
        while True:
            page = self._http.get(path, query if token is None else {**query, "pageToken": token})
            elements = page.get(member) if isinstance(page, Mapping) else None
            yield from elements or ()
            following = page.get("nextPageToken") if isinstance(page, Mapping) else None
            if not following or not elements:
                return
            if following == token:
                raise CatalogError(f"{self.uri} answers {path} with the page {token!r} again and again.")
            token = following


def _name(identifier: Identifier) -> Json:
    return {"database": identifier.database, "object": identifier.table}


class RestFunctions(CatalogFunctions):
    """The part of a REST catalog that has functions."""

    client: RestClient

    def list_functions(self, database: str) -> list[str]:
        try:
            return sorted(self.client.functions(check_database_name(database)))
        except RestRefusedError as error:
            if error.status == NOT_FOUND:
                raise DatabaseNotFoundError(f"There is no database '{database}' in {self.described}.") from error
            raise catalog_error(error) from error

    def get_function(self, identifier: "str | FunctionName") -> CatalogFunction:
        name = FunctionName.of(identifier)
        with self._function_errors(name):
            found = self.client.function(name)
        return CatalogFunction.from_json(found, source=f"The answer of {self.client.uri} about the function '{name}'")

    def create_function(
        self, identifier: "str | FunctionName", function: CatalogFunction, ignore_if_exists: bool = False
    ) -> None:
        name = FunctionName.of(identifier)
        try:
            self.client.create_function(name.database, function.to_json(name.function))
        except RestRefusedError as error:
            if error.status != CONFLICT:
                raise self._of_function(name, error) from error
            if not ignore_if_exists:
                raise FunctionExistsError(f"There is a function '{name}' in {self.described} already.") from error

    def alter_function(
        self,
        identifier: "str | FunctionName",
        changes: Sequence[FunctionChange] | FunctionChange,
        ignore_if_not_exists: bool = False,
    ) -> None:
        name = FunctionName.of(identifier)
        given = [each.to_json() for each in (changes if isinstance(changes, Sequence) else [changes])]
        with self._function_errors(name, ignore_if_not_exists=ignore_if_not_exists):
            self.client.alter_function(name, given)

    def drop_function(self, identifier: "str | FunctionName", ignore_if_not_exists: bool = False) -> None:
        name = FunctionName.of(identifier)
        with self._function_errors(name, ignore_if_not_exists=ignore_if_not_exists):
            self.client.drop_function(name)

    @contextmanager
    def _function_errors(self, name: FunctionName, *, ignore_if_not_exists: bool = False) -> Iterator[None]:
        """Raise refusals as errors about the function."""
        try:
            yield
        except RestRefusedError as error:
            found = self._of_function(name, error)
            if not (ignore_if_not_exists and isinstance(found, FunctionNotFoundError)):
                raise found from error

    def _of_function(self, identifier: FunctionName, error: RestRefusedError) -> Exception:
        if error.is_missing("DATABASE"):
            return DatabaseNotFoundError(f"There is no database '{identifier.database}' in {self.described}.")
        if error.is_missing("FUNCTION", ""):
            return self._no_function(identifier)
        return catalog_error(error)
