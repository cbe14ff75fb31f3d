"""Namespaces: the databases of a catalog, with their properties as Iceberg's HiveCatalog maps them.

A namespace above another one need not have a database, as in Iceberg's JdbcCatalog: it is listed and has no properties.

`location` and `comment` are the database's location and description, `hive.metastore.database.owner` and
`hive.metastore.database.owner-type` its owner; all other properties are its parameters.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus

import msgspec

from interbed.catalog.server.rest.iceberg.names import (
    bad_request,
    catalog_of,
    exists,
    levels_of,
    no_namespace,
    page_of,
)
from interbed.catalog.server.rest.iceberg.store import TableStore
from interbed.catalog.server.rest.interface import (
    FOUND,
    NO_CONTENT,
    RestError,
    RestRequest,
    RestResponse,
    json_response,
)
from interbed.catalog.server.service.errors import AlreadyExistsError, InvalidOperationError, NoSuchObjectError
from interbed.catalog.server.service.model import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    MetastoreDatabase,
    PrincipalType,
)
from interbed.catalog.server.service.names import escaped, shortened

LOCATION = "location"
COMMENT = "comment"
OWNER = "hive.metastore.database.owner"
OWNER_TYPE = "hive.metastore.database.owner-type"

_FIXED = (LOCATION, OWNER, OWNER_TYPE)
"""Properties that every database has: they are changed, but not removed."""


class CreateNamespaceRequest(msgspec.Struct, frozen=True):
    """Body of the operation createNamespace."""

    namespace: list[str]
    properties: dict[str, str] | None = None


class UpdatePropertiesRequest(msgspec.Struct, frozen=True):
    """Body of the operation updateProperties."""

    removals: list[str] | None = None
    updates: dict[str, str] | None = None


class NamespaceHandler:
    """The operations about namespaces."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._databases = store.metastore.databases

    def list(self, request: RestRequest) -> RestResponse:
        """Answer listNamespaces: those of one level, or those one level below a namespace."""
        catalog, parent = catalog_of(request), request.query.get("parent", "")
        levels = levels_of(parent) if parent else ()
        if levels:
            self._store.present(catalog, levels)
        after, size = page_of(request.query)
        found = [each for each in self._store.below(catalog, levels) if after is None or each[-1] > after]
        token = found[size - 1][-1] if size is not None and len(found) > size else None
        return json_response({"namespaces": [list(each) for each in found[:size]], "next-page-token": token})

    def create(self, request: RestRequest) -> RestResponse:
        """Answer the operation createNamespace."""
        body = request.json(CreateNamespaceRequest)
        catalog, name = catalog_of(request), self._store.mapping.check_new(body.namespace)
        properties = body.properties or {}
        try:
            catalog_location = self._store.metastore.catalogs.get(catalog).location
        except NoSuchObjectError as error:
            raise no_namespace(catalog) from error
        location = None
        if escaped(name) != name:
            root = None if catalog == DEFAULT_CATALOG else catalog_location
            location = self._store.metastore.pointers.database_location(name, root)
        plain = MetastoreDatabase(
            catalog=catalog,
            name=name,
            location=location,
            owner_name=request.session.user,
            owner_type=PrincipalType.USER,
        )
        try:
            self._databases.create(with_properties(plain, (), properties), has_any_name=True)
        except AlreadyExistsError as error:
            raise exists(f"Namespace already exists: {shortened('.'.join(body.namespace))}") from error
        made = self._store.database(catalog, tuple(body.namespace))
        return json_response({"namespace": body.namespace, "properties": properties_of(made)})

    def load(self, request: RestRequest) -> RestResponse:
        """Answer the operation loadNamespaceMetadata."""
        levels = levels_of(request.parts["namespace"])
        found = self._store.present(catalog_of(request), levels)
        shown = {"namespace": list(levels), "properties": {} if found is None else properties_of(found)}
        # The answer about a namespace without a database depends on those below it.
        return json_response(shown, lasting=found is not None)

    def exists(self, request: RestRequest) -> RestResponse:
        """Answer the operation namespaceExists."""
        found = self._store.present(catalog_of(request), levels_of(request.parts["namespace"]))
        return NO_CONTENT if found is None else FOUND

    def drop(self, request: RestRequest) -> RestResponse:
        """Answer dropNamespace. Its directory stays: files of tables that were dropped without purge may be in it."""
        catalog, levels = catalog_of(request), levels_of(request.parts["namespace"])
        name, below = self._store.mapping.database(levels), self._store.below(catalog, levels)
        if below:
            raise _not_empty(levels, f"the namespace {'.'.join(below[0])} is below it")
        if name is None:
            raise no_namespace(".".join(levels))
        if catalog == DEFAULT_CATALOG and name == DEFAULT_DATABASE:
            raise bad_request("Can not drop default database")
        try:
            self._databases.drop(catalog, name, delete_data=False, cascade=False)
        except NoSuchObjectError as error:
            raise no_namespace(".".join(levels)) from error
        except InvalidOperationError as error:
            raise _not_empty(levels, str(error)) from error
        return NO_CONTENT

    def update(self, request: RestRequest) -> RestResponse:
        """Answer the operation updateProperties."""
        body = request.json(UpdatePropertiesRequest)
        removals, updates = dict.fromkeys(body.removals or ()), body.updates or {}
        both = sorted(set(removals) & set(updates))
        if both:
            raise RestError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "UnprocessableEntityException",
                f"Invalid namespace update, cannot simultaneously set and remove keys: {both}",
            )
        catalog, levels = catalog_of(request), levels_of(request.parts["namespace"])
        name = self._store.database(catalog, levels).name
        removed: list[str] = []

        def change(old: MetastoreDatabase) -> MetastoreDatabase:
            present = properties_of(old)
            removed[:] = [key for key in removals if key in present and key not in _FIXED]
            return with_properties(old, removed, updates)

        try:
            self._databases.change(catalog, name, change)
        except NoSuchObjectError as error:
            raise no_namespace(".".join(levels)) from error
        missing = [key for key in removals if key not in removed]
        return json_response({"updated": sorted(updates), "removed": removed, "missing": missing})


def _not_empty(levels: Sequence[str], reason: str) -> RestError:
    shown = shortened(".".join(levels))
    return RestError(HTTPStatus.CONFLICT, "NamespaceNotEmptyException", f"Namespace {shown} is not empty: {reason}")


def properties_of(database: MetastoreDatabase) -> dict[str, str]:
    """Return the properties of a namespace."""
    known = {
        LOCATION: database.location,
        COMMENT: database.description,
        OWNER: database.owner_name,
        OWNER_TYPE: _type_name(database.owner_type) if database.owner_name else None,
    }
    return {**database.parameters, **{key: value for key, value in known.items() if value}}


def with_properties(
    database: MetastoreDatabase, removed: Iterable[str], updates: Mapping[str, str]
) -> MetastoreDatabase:
    """Return the database without some properties and with new values of others. RestError with status 400 for a type
    of an owner that does not exist.
    """
    gone = set(removed)
    parameters = {key: value for key, value in database.parameters.items() if key not in gone}
    parameters |= {key: value for key, value in updates.items() if key not in (*_FIXED, COMMENT)}
    kind = updates.get(OWNER_TYPE)
    if kind is not None and kind.upper() not in PrincipalType.__members__:
        raise bad_request(f"The property {OWNER_TYPE} is {shortened(kind)!r}, not one of USER, ROLE, GROUP")
    return dataclasses.replace(
        database,
        parameters=parameters,
        description=updates.get(COMMENT, None if COMMENT in gone else database.description),
        location=updates.get(LOCATION) or database.location,
        owner_name=updates.get(OWNER, database.owner_name),
        owner_type=database.owner_type if kind is None else PrincipalType[kind.upper()],
    )


def _type_name(kind: int | None) -> str:
    return next((each.name for each in PrincipalType if each == kind), PrincipalType.USER.name)
