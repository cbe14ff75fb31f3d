"""The configuration of clients, databases, and functions in them: list, create, get, alter, drop.

A client that drops a database without `cascade` looks for tables itself, and asks for the same as one with it. It sees
neither tables of other formats nor views and functions. So a database with tables of other formats is not dropped, and
one with views or functions only if it has tables as well: then the client has asked for all of them.

A function has parameters and a definition for each language or engine: text of SQL, a lambda, or a class in files. The
metastore's function has a class and resources. The rest is the JSON of one more resource of the type FILE, whose URI
begins with `paimon-function:` (service/model.py); `interbed metastore export` copies it as any other. So Hive's
clients list such a function, and cannot call it. A function that they have made is shown with the definition `hive`.

Source: paimon-api's org.apache.paimon.function and org.apache.paimon.rest.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote_plus

import msgspec

from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.catalogs import derived_id
from interbed.catalog.server.rest.paimon.messages import (
    AlterDatabaseRequest,
    AlterDatabaseResponse,
    AlterFunctionRequest,
    ConfigResponse,
    CreateDatabaseRequest,
    DatabaseResponse,
    FunctionBody,
    FunctionResponse,
    NewFunctionRequest,
    after_changes,
    global_page,
    name_filter,
    page,
)
from interbed.catalog.server.rest.paimon.refusals import (
    ResourceType,
    existing,
    invalid,
    missing,
    paimon_route,
    text_of,
    unsupported,
)
from interbed.catalog.server.rest.paimon.schema_json import given_fields
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.databases import FunctionService
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.model import Function
from interbed.storage.base.types.data_type import field_to_json

DATABASES = "v1/{prefix}/databases"
DATABASE = f"{DATABASES}/{{database}}"

_COMMENT, _OWNER = "comment", "owner"

FUNCTIONS = f"{DATABASE}/functions"
FUNCTION = f"{FUNCTIONS}/{{function}}"

_HIVE = "hive"
_KEY = "The name of an option"
_HIVE_RESOURCES = {1: "JAR", 2: "FILE", 3: "ARCHIVE"}
_NO_CLASS = "org.apache.paimon.function.Function"
"""The class of a function in the metastore, which requires one, unless a definition has a class."""

_DEFINITION_MEMBERS = {
    "sql": ("definition",),
    "lambda": ("definition", "language"),
    "file": ("fileResources", "language", "className", "functionName"),
}


class DatabaseRoutes:
    """The routes of databases."""

    def __init__(self, access: CatalogAccess, functions: FunctionService) -> None:
        self._access = access
        self._functions = functions

    def routes(self) -> list[RestRoute]:
        """Return the routes of databases."""
        usage, catalog, database = Privilege.USAGE, ObjectKind.CATALOG, ObjectKind.DATABASE
        create, alter, drop = Privilege.CREATE, Privilege.ALTER, Privilege.DROP
        return [
            paimon_route("GET", "v1/config", "getConfig", usage, ObjectKind.SERVER, self._config),
            paimon_route("GET", DATABASES, "listDatabases", usage, catalog, self._list),
            paimon_route("POST", DATABASES, "createDatabase", create, catalog, self._create),
            paimon_route("GET", DATABASE, "getDatabase", usage, database, self._get),
            paimon_route("POST", DATABASE, "alterDatabase", alter, database, self._alter),
            paimon_route("DELETE", DATABASE, "dropDatabase", drop, database, self._drop),
        ]

    def _config(self, request: RestRequest) -> RestResponse:
        # Paimon's clients encode the value, and encode it again with the query.
        warehouse = unquote_plus(request.query.get("warehouse", ""), errors="replace")
        return json_response(ConfigResponse(defaults={}, overrides={"prefix": self._access.prefix(warehouse)}))

    def _list(self, request: RestRequest) -> RestResponse:
        is_meant = name_filter(request, "databaseNamePattern")
        names = [name for name in self._access.catalog(request).list_databases() if is_meant(name)]
        found, token = page(request, names, str)
        return json_response({"databases": found, "nextPageToken": token})

    def _create(self, request: RestRequest) -> RestResponse:
        given = request.json(CreateDatabaseRequest)
        with self._access.changing(request) as catalog:
            catalog.create_database(given.name, properties=given.options or {})
        return RestResponse()

    def _get(self, request: RestRequest) -> RestResponse:
        catalog, name = self._access.catalog(request), request.parts["database"]
        found, origin = catalog.get_database(name), catalog.database_origin(name)
        options = {key: value for key, value in found.properties.items() if key != _OWNER}
        if found.comment is not None:
            options[_COMMENT] = found.comment
        answer = DatabaseResponse(
            id=origin.id,
            name=name,
            location=found.location,
            options=options,
            owner=origin.owner,
            created_at=origin.created_millis,
            created_by=origin.owner,
            updated_at=origin.created_millis,
            updated_by=origin.owner,
        )
        return json_response(answer)

    def _alter(self, request: RestRequest) -> RestResponse:
        given, name = request.json(AlterDatabaseRequest), request.parts["database"]
        removals, updates = given.removals or [], given.updates or {}
        with self._access.changing(request) as catalog:
            before = catalog.get_database(name)
            known = {*before.properties, *(() if before.comment is None else (_COMMENT,))}
            removed = [key for key in removals if key in known]
            catalog.alter_database(name, updates, removed)
        missing = [key for key in removals if key not in known]
        return json_response(AlterDatabaseResponse(removed=removed, updated=list(updates), missing=missing))

    def _drop(self, request: RestRequest) -> RestResponse:
        name = request.parts["database"]
        with self._access.changing(request) as catalog:
            home = self._access.metastore_catalog(request)
            catalog.check_droppable(name, [] if home is None else self._functions.names(home, name))
            catalog.drop_database(name, cascade=True)
        return RestResponse()


class FunctionRoutes:
    """The routes of functions."""

    def __init__(self, access: CatalogAccess, functions: FunctionService) -> None:
        self._access = access
        self._functions = functions

    def routes(self) -> list[RestRoute]:
        """Return the routes of functions."""
        usage, create, alter = Privilege.USAGE, Privilege.CREATE, Privilege.ALTER
        catalog, database, function = ObjectKind.CATALOG, ObjectKind.DATABASE, ObjectKind.FUNCTION
        details, every = f"{DATABASE}/function-details", "v1/{prefix}/functions"
        return [
            paimon_route("GET", FUNCTIONS, "listFunctions", usage, database, self._list),
            paimon_route("POST", FUNCTIONS, "createFunction", create, database, self._create),
            paimon_route("GET", details, "listFunctionDetails", usage, database, self._list_details),
            paimon_route("GET", every, "listFunctionsGlobally", usage, catalog, self._list_globally),
            paimon_route("GET", FUNCTION, "getFunction", Privilege.SELECT, function, self._get),
            paimon_route("POST", FUNCTION, "alterFunction", alter, function, self._alter),
            paimon_route("DELETE", FUNCTION, "dropFunction", Privilege.DROP, function, self._drop),
        ]

    def _list(self, request: RestRequest) -> RestResponse:
        found, token = page(request, [each.name for each in self._found(request)], str)
        return json_response({"functions": found, "nextPageToken": token})

    def _list_details(self, request: RestRequest) -> RestResponse:
        found, token = page(request, self._found(request), lambda function: function.name)
        return json_response({"functionDetails": [_shown(each) for each in found], "nextPageToken": token})

    def _list_globally(self, request: RestRequest) -> RestResponse:
        home = self._access.metastore_catalog(request)

        def names(database: str, after: str, limit: int, prefix: str) -> list[str]:
            every = [] if home is None else self._functions.names(home, database)
            return sorted(name for name in every if name > after and name.startswith(prefix))[:limit]

        found, token = global_page(request, self._access.catalog(request), "functionNamePattern", names)
        return json_response({"functions": found, "nextPageToken": token})

    def _found(self, request: RestRequest) -> list[Function]:
        database = request.parts["database"]
        self._access.catalog(request).get_database(database)
        is_meant, home = name_filter(request, "functionNamePattern"), self._access.metastore_catalog(request)
        found = [] if home is None else self._functions.select(home, database.lower())
        return [each for each in found if is_meant(each.name)]

    def _create(self, request: RestRequest) -> RestResponse:
        given, database = request.json(NewFunctionRequest), request.parts["database"]
        home = self._access.metastore_catalog(request)
        if home is None:
            raise unsupported(f"The warehouse {request.parts['prefix']!r} has no metastore, and so no functions.")
        function = Function(
            catalog=home,
            database=database.lower(),
            name=given.name.lower(),
            owner_name=request.session.user,
            owner_type=1,
        )
        with self._access.changing(request) as catalog, _refused(given.name):
            catalog.get_database(database)
            self._functions.create(_stored(function, _checked(given)))
        return RestResponse()

    def _get(self, request: RestRequest) -> RestResponse:
        self._access.catalog(request)
        return json_response(_shown(self._one(request)))

    def _one(self, request: RestRequest) -> Function:
        name = request.parts["function"]
        with _refused(name):
            return self._functions.get(self._home(request), request.parts["database"], name)

    def _home(self, request: RestRequest) -> str:
        """Return the catalog in the metastore of a request for one function. NoSuchObjectError for a warehouse."""
        home = self._access.metastore_catalog(request)
        if home is None:
            raise NoSuchObjectError(f"The warehouse {request.parts['prefix']!r} has no functions.")
        return home

    def _alter(self, request: RestRequest) -> RestResponse:
        changes, name = request.json(AlterFunctionRequest).changes, request.parts["function"]

        def changed(before: Function) -> Function:
            if before.paimon_definition is None:
                raise unsupported(f"The function {name} was made by a client of Hive, and is not altered here.")
            return _stored(before, changed_function(_body(before), name, changes))

        with self._access.changing(request), _refused(name):
            self._functions.change(self._home(request), request.parts["database"], name, changed)
        return RestResponse()

    def _drop(self, request: RestRequest) -> RestResponse:
        name = request.parts["function"]
        with self._access.changing(request), _refused(name):
            self._functions.drop(self._home(request), request.parts["database"], name)
        return RestResponse()


@contextmanager
def _refused(name: str) -> Iterator[None]:
    """Raise the metastore's errors about a function as refusals."""
    try:
        yield
    except AlreadyExistsError as error:
        raise existing(ResourceType.FUNCTION, name, str(error)) from error
    except InvalidObjectError as error:
        raise invalid(str(error)) from error
    except NoSuchObjectError as error:
        raise missing(ResourceType.FUNCTION, name, str(error)) from error


def _stored(function: Function, body: FunctionBody) -> Function:
    """Return the metastore's function with a body."""
    classes = [str(each["className"]) for each in (body.definitions or {}).values() if each.get("className")]
    named = dataclasses.replace(function, class_name=classes[0] if classes else _NO_CLASS)
    return named.with_paimon_definition(msgspec.json.encode(body).decode())


def _body(function: Function) -> FunctionBody:
    """Return the body of a function; that of Hive's clients is a class."""
    definition = function.paimon_definition
    if definition is not None:
        return msgspec.json.decode(definition, type=FunctionBody)
    resources = [
        {"resourceType": _HIVE_RESOURCES.get(kind, "FILE"), "uri": uri or ""} for kind, uri in function.resources
    ]
    of_hive = {
        "type": "file",
        "fileResources": resources,
        "language": "JAVA",
        "className": function.class_name,
        "functionName": function.name,
    }
    return FunctionBody(definitions={_HIVE: of_hive})


def _checked(given: FunctionBody) -> FunctionBody:
    """Return the body of a request. RestError with status 400 for an invalid one."""
    for name, definition in (given.definitions or {}).items():
        _check_definition(name, definition)
    parameters = [
        None if fields is None else [field_to_json(field) for field in given_fields(fields)]
        for fields in (given.input_params, given.return_params)
    ]
    return FunctionBody(
        input_params=parameters[0],
        return_params=parameters[1],
        deterministic=given.deterministic,
        definitions=given.definitions or {},
        comment=given.comment,
        options=given.options or {},
    )


def _check_definition(name: str, definition: Any) -> None:
    kind = definition.get("type") if isinstance(definition, Mapping) else None
    if not isinstance(kind, str) or kind not in _DEFINITION_MEMBERS:
        kinds = ", ".join(_DEFINITION_MEMBERS)
        raise invalid(f"The definition {name!r} of the function needs a type, one of {kinds}.")
    unknown = set(definition) - {"type", *_DEFINITION_MEMBERS[kind]}
    if unknown:
        raise invalid(f"The definition {name!r} of the function has unknown members: {', '.join(sorted(unknown))}.")
    for member, value in definition.items():
        if member != "fileResources" and value is not None:
            text_of(value, f"The member {member} of the definition {name!r}")


def changed_function(body: FunctionBody, name: str, changes: list[dict[str, Any]]) -> FunctionBody:
    """Return the body after changes.

    RestError: status 400 for invalid ones, 404 and 409 for definitions, 501 for an action that is not supported.
    """
    return after_changes("function", body, changes, lambda before, change: _change(before, name, change))


def _change(body: FunctionBody, name: str, change: Mapping[str, Any]) -> FunctionBody:
    options, definitions = dict(body.options or {}), dict(body.definitions or {})
    match change.get("action"):
        case "setOption":
            options[text_of(change["key"], _KEY)] = text_of(change["value"], "The value of an option")
        case "removeOption":
            options.pop(text_of(change["key"], _KEY), None)
        case "updateComment":
            comment = change.get("comment")
            return msgspec.structs.replace(body, comment=None if comment is None else text_of(comment, "The comment"))
        case "addDefinition":
            text_of(change["name"], "The name of a definition")
            if change["name"] in definitions:
                message = f"The function {name} has the definition {change['name']} already."
                raise existing(ResourceType.DEFINITION, change["name"], message)
            _check_definition(change["name"], change["definition"])
            definitions[change["name"]] = change["definition"]
        case "updateDefinition":
            _check_has(definitions, name, text_of(change["name"], "The name of a definition"))
            _check_definition(change["name"], change["definition"])
            definitions[change["name"]] = change["definition"]
        case "dropDefinition":
            _check_has(definitions, name, text_of(change["name"], "The name of a definition"))
            del definitions[change["name"]]
        case other:
            raise unsupported(f"Changes of a function by {other!r} are not supported.")
    return msgspec.structs.replace(body, options=options, definitions=definitions)


def _check_has(definitions: Mapping[str, Any], name: str, definition: str) -> None:
    if definition not in definitions:
        message = f"The function {name} has no definition {definition}."
        raise missing(ResourceType.DEFINITION, definition, message)


def _shown(function: Function) -> FunctionResponse:
    body, created = _body(function), function.create_time * 1000
    return FunctionResponse(
        uuid=derived_id("function", function.catalog, function.database, function.name, created),
        name=function.name,
        input_params=body.input_params,
        return_params=body.return_params,
        deterministic=body.deterministic,
        definitions=body.definitions,
        comment=body.comment,
        options=body.options,
        owner=function.owner_name,
        created_at=created,
        created_by=function.owner_name,
        updated_at=created,
        updated_by=function.owner_name,
    )
