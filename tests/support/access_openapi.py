"""The OpenAPI documents of the routes about roles and grants, and of that of rows, made of the routes and of the types
of their bodies.

`python -m tests.support.access_openapi` writes docs/access-openapi.yaml and docs/rows-openapi.yaml.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from interbed.catalog.server.rest.access.routes import MESSAGES, AccessRoutes, OperationMessages
from interbed.catalog.server.rest.interface import RestRoute
from interbed.catalog.server.rest.rows.routes import ARROW_STREAM, RowRoutes
from interbed.catalog.server.rest.rows.routes import MESSAGES as OF_ROWS
from interbed.catalog.server.rest.rows.streams import RowStreams
from interbed.catalog.server.service.access.objects import GranteeKind, Privilege, SecuredKind
from interbed.catalog.server.service.service import Metastore

PAGE = Path(__file__).parents[2] / "docs" / "access-openapi.yaml"
ROWS_PAGE = PAGE.with_name("rows-openapi.yaml")

_HEAD = "# Generated from the routes: python -m tests.support.access_openapi\n"

_ERRORS = {
    "400": "The request is invalid.",
    "401": "The request has no valid credentials.",
    "403": "The caller may not do this.",
    "404": "A role, an object or a grant does not exist, or the caller does not see it.",
    "409": "The role exists, is built in, or owns objects; or the membership would be a cycle.",
    "501": "The server keeps no roles and grants.",
    "503": "The grants cannot be read at present.",
}

_ENUMERATIONS: Mapping[str, type[StrEnum]] = {"kind": SecuredKind, "grantee-kind": GranteeKind, "privilege": Privilege}


_ERRORS_OF_ROWS = {
    "400": "The request is invalid: a column, a filter, or several versions.",
    "401": "The request has no valid credentials.",
    "403": "The caller may not read the table, or a column of it that the query needs.",
    "404": "The table, or the version of it, does not exist, or the caller does not see it.",
    "501": "The server reads no rows of tables of this format.",
    "503": "Too many streams are open, or the server cannot read the files of the table: repeat the request later.",
}


def document(metastore: Metastore) -> dict[str, Any]:
    """Return the document of the interface of roles and grants."""
    return _document("Roles and grants of interbed's catalog server", AccessRoutes(metastore, None).routes(), MESSAGES)


def rows_document(metastore: Metastore) -> dict[str, Any]:
    """Return the document of the route of rows."""
    routes = RowRoutes(metastore, _no_catalogs, RowStreams()).routes()
    found = _document("Rows of tables of interbed's catalog server", routes, OF_ROWS, _ERRORS_OF_ROWS)
    (path,) = found["paths"].values()
    path["post"]["requestBody"]["required"] = False
    path["post"]["responses"] = {
        "200": {
            "description": "The rows. Without the mark of its end the stream is not complete: its last batch has no "
            "rows, and names the reason in its metadata interbed.error.",
            "content": {ARROW_STREAM: {"schema": {"type": "string", "format": "binary"}}},
        },
        **{code: answer for code, answer in path["post"]["responses"].items() if code in _ERRORS_OF_ROWS},
    }
    return found


def _no_catalogs() -> NoReturn:
    raise AssertionError("no request is served")


def _document(
    title: str,
    routes: Sequence[RestRoute],
    messages: Mapping[str, OperationMessages],
    errors: Mapping[str, str] = _ERRORS,
) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        made = _operation(route, messages[route.operation], errors)
        paths.setdefault(f"/{route.template}", {})[route.method.lower()] = made
    kinds = [kind for each in messages.values() for kind in (each.body, each.answer) if kind is not None]
    _, schemas = msgspec.json.schema_components(dict.fromkeys(kinds), ref_template="#/components/schemas/{name}")
    schemas["Error"] = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "code"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "code": {"type": "integer"},
                },
            }
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": "1",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/interbed"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
    }


def _operation(route: RestRoute, found: OperationMessages, of_errors: Mapping[str, str]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    status = "204"
    if found.answer is not None:
        status = "200"
        answer = {"description": _first_line(found.answer), "content": _json(found.answer.__name__)}
    made: dict[str, Any] = {"operationId": route.operation, "summary": _first_line(route.handler)}
    # Without an object in the query `kind` is that of a grantee.
    kinds = {**_ENUMERATIONS, "kind": SecuredKind if "catalog" in found.query else GranteeKind}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.template)
    ] + [
        {
            "name": name,
            "in": "query",
            "required": name in found.needed,
            "schema": {"type": "string"} | ({"enum": sorted(kinds[name])} if name in kinds else {}),
        }
        for name in found.query
    ]
    if parameters:
        made["parameters"] = parameters
    if found.body is not None:
        made["requestBody"] = {"required": True, "content": _json(found.body.__name__)}
    errors = {code: {"description": text, "content": _json("Error")} for code, text in of_errors.items()}
    return made | {"responses": {status: answer, **errors}}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _first_line(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    return " ".join(text.partition("\n\n")[0].split())


def yaml_text(value: Mapping[str, Any]) -> str:
    """Return a value as YAML, whose scalars are those of JSON."""
    return _HEAD + "\n".join(_mapping(value, "")) + "\n"


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, each in value.items():
        shown = key if re.fullmatch(r"[A-Za-z$][\w-]*", key) else json.dumps(key)
        if isinstance(each, Mapping) and each:
            yield f"{indent}{shown}:"
            yield from _mapping(each, f"{indent}  ")
        elif isinstance(each, Sequence) and not isinstance(each, str) and any(isinstance(one, Mapping) for one in each):
            yield f"{indent}{shown}:"
            for one in each:
                first, *others = _mapping(one, f"{indent}    ")
                yield f"{indent}  - {first.strip()}"
                yield from others
        else:
            yield f"{indent}{shown}: {json.dumps(each, ensure_ascii=False)}"


def page(metastore: Metastore) -> str:
    """Return the text of the document of roles and grants."""
    return yaml_text(document(metastore))


def rows_page(metastore: Metastore) -> str:
    """Return the text of the document of rows."""
    return yaml_text(rows_document(metastore))


if __name__ == "__main__":
    import tempfile

    from tests.catalog.server.rest.access.served import managed_access

    with tempfile.TemporaryDirectory() as directory, managed_access(Path(directory)) as managed:
        PAGE.write_text(page(managed.metastore), encoding="utf-8")
        ROWS_PAGE.write_text(rows_page(managed.metastore), encoding="utf-8")
