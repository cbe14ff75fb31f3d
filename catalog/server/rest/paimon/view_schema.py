"""Views of a metastore as Paimon's REST catalog has them: columns of Paimon's types, and queries in several dialects.

A metastore has one query and columns of Hive's types. The rest is in parameters of the entry: the columns as JSON, and
a query for each dialect. Where another client has changed the columns since, those of the metastore are shown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.hive.registration import hive_type_name
from interbed.catalog.server.rest.paimon.messages import ViewSchemaJson
from interbed.catalog.server.rest.paimon.refusals import ResourceType, existing, invalid, missing, text_of, unsupported
from interbed.catalog.server.rest.paimon.schema_json import given_fields
from interbed.catalog.server.service.access.paimon_types import paimon_type
from interbed.catalog.server.service.errors import InvalidObjectError
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.types.data_type import (
    DataField,
    DataType,
    field_from_json,
    field_to_json,
)

FIELDS = "interbed.view.fields"
DIALECT = "interbed.view.dialect."


def given_view(given: ViewSchemaJson) -> View:
    """Return the view of a request. RestError with status 400 for an invalid one."""
    fields = given_fields(given.fields)
    options = {key: value for key, value in (given.options or {}).items() if not _is_own(key)}
    options[FIELDS] = json.dumps([field_to_json(field) for field in fields], ensure_ascii=False)
    options.update({f"{DIALECT}{name}": query for name, query in (given.dialects or {}).items()})
    return View(query=given.query, columns=_columns(fields), comment=given.comment, options=options)


def shown_view(view: View) -> ViewSchemaJson:
    """Return the JSON of a view."""
    return ViewSchemaJson(
        fields=[field_to_json(field) for field in _fields(view)],
        query=view.query,
        dialects=_dialects(view),
        comment=view.comment,
        options={key: value for key, value in view.options.items() if not _is_own(key)},
    )


def changed_view(view: View, name: str, changes: Sequence[Mapping[str, Any]]) -> View:
    """Return the view after changes.

    RestError: status 400 for invalid ones, 404 and 409 for dialects, 501 for an action that is not supported.
    """
    for change in changes:
        try:
            view = _changed(view, name, change)
        except (KeyError, TypeError) as error:
            raise invalid(f"The change {change.get('action')!r} of the view is invalid: {error}") from error
    return view


def _changed(view: View, name: str, change: Mapping[str, Any]) -> View:
    options = dict(view.options)
    match change.get("action"):
        case "setOption":
            options[_option(change)] = text_of(change["value"], "The value of an option")
        case "removeOption":
            options.pop(_option(change), None)
        case "updateComment":
            comment = change.get("comment")
            return replace(view, comment=None if comment is None else text_of(comment, "The comment"))
        case "addDialect":
            dialect = _dialect(change)
            if dialect in _dialects(view):
                raise existing(ResourceType.DIALECT, dialect, f"The view {name} has {dialect} already.")
            options[f"{DIALECT}{dialect}"] = text_of(change["query"], "The query")
        case "updateDialect":
            dialect = _known_dialect(view, name, change)
            options[f"{DIALECT}{dialect}"] = text_of(change["query"], "The query")
        case "dropDialect":
            del options[f"{DIALECT}{_known_dialect(view, name, change)}"]
        case other:
            raise unsupported(f"Changes of a view by {other!r} are not supported.")
    return replace(view, options=options)


def _option(change: Mapping[str, Any]) -> str:
    key = text_of(change["key"], "The name of an option")
    if _is_own(key):
        raise invalid(f"The option {key!r} of a view is the server's own.")
    return key


def _dialect(change: Mapping[str, Any]) -> str:
    return text_of(change["dialect"], "The name of a dialect")


def _known_dialect(view: View, name: str, change: Mapping[str, Any]) -> str:
    dialect = _dialect(change)
    if dialect not in _dialects(view):
        raise missing(ResourceType.DIALECT, dialect, f"The view {name} has no query of the dialect {dialect}.")
    return dialect


def _is_own(key: str) -> bool:
    return key == FIELDS or key.startswith(DIALECT)


def _dialects(view: View) -> dict[str, str]:
    return {key.removeprefix(DIALECT): query for key, query in view.options.items() if key.startswith(DIALECT)}


def _columns(fields: Sequence[DataField]) -> tuple[ViewColumn, ...]:
    return tuple(ViewColumn(field.name, hive_type_name(field.type), field.description) for field in fields)


def _fields(view: View) -> list[DataField]:
    try:
        known = [field_from_json(field) for field in json.loads(view.options.get(FIELDS, "[]"))]
    except (CorruptFileError, ValueError, KeyError, TypeError, AttributeError):
        known = []
    if [(c.name.lower(), c.type) for c in _columns(known)] == [(c.name.lower(), c.type) for c in view.columns]:
        return known
    return [
        DataField(id=index, name=column.name, type=_type(column.type), description=column.comment)
        for index, column in enumerate(view.columns)
    ]


def _type(hive_type: str) -> DataType:
    try:
        return paimon_type(hive_type)
    except InvalidObjectError as error:
        raise unsupported(str(error)) from error
