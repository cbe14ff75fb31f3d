"""JSON of schemas, of their changes and of views, as Paimon's REST interface has them, and back.

A schema is that of a schema file without id, version and time. A change is an object with `action` (paimon-api's
SchemaChange); a view has fields, a query, and queries of dialects (ViewSchema).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.hive.registration import paimon_type
from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import field_from_json, field_to_json, type_to_json
from interbed.storage.meta.schema import change as changes
from interbed.storage.meta.schema.table_schema import TableSchema, highest_field_id

Json = dict[str, Any]
PATH = "path"
TYPE = "type"
_SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """Table of a server: its id, location, kind, and the schema that the server names."""

    id: str
    path: str
    is_external: bool
    type: str
    """Option `type`: `table` for Paimon's tables, otherwise another format."""
    schema: TableSchema

    @staticmethod
    def from_json(value: Json, *, source: str) -> "TableEntry":
        """Return the entry of a response; raises CorruptFileError naming `source`."""
        try:
            given = value["schema"]
            options = {str(k): str(v) for k, v in (given.get("options") or {}).items() if v is not None}
            fields = tuple(field_from_json(field) for field in given["fields"])
            options.pop(PATH, None)
            return TableEntry(
                id=_text(value, "id"),
                path=_text(value, "path"),
                is_external=bool(value.get("isExternal")),
                type=options.get(TYPE, "table").lower(),
                schema=TableSchema(
                    id=int(value["schemaId"]),
                    fields=fields,
                    highest_field_id=highest_field_id(fields),
                    partition_keys=tuple(given.get("partitionKeys") or ()),
                    primary_keys=tuple(given.get("primaryKeys") or ()),
                    options=options,
                    comment=given.get("comment"),
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFileError(f"{source} has no valid entry of a table: {error!r}") from error


def schema_to_json(schema: TableSchema, path: str | None = None) -> Json:
    """Return the schema of a new table, with its location if it is to be external."""
    return {
        "fields": [field_to_json(field) for field in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": {**schema.options, **({} if path is None else {PATH: path})},
        "comment": schema.comment,
    }


# -- changes of a schema -----------------------------------------------------------------------------------------------


def changes_to_json(given: Sequence[changes.SchemaChange]) -> list[Json]:
    """Return the changes for a request; raises NotSupportedError for one that the interface does not have."""
    found: list[Json] = []
    for change in given:
        if isinstance(change, changes.AddColumn):
            found += _added(change)
        else:
            found.append(_ACTIONS[type(change)](change))
    return found


def _names(path: changes.ColumnPath) -> list[str]:
    return [path] if isinstance(path, str) else list(path)


def _move(name: str, position: changes.Position) -> Json:
    if position.after is not None:
        return {"fieldName": name, "referenceFieldName": position.after, "type": "AFTER"}
    if position.before is not None:
        return {"fieldName": name, "referenceFieldName": position.before, "type": "BEFORE"}
    return {"fieldName": name, "referenceFieldName": None, "type": "LAST" if position.last else "FIRST"}


def _added(change: changes.AddColumn) -> list[Json]:
    names = _names(change.name)
    added: Json = {
        "action": "addColumn",
        "fieldNames": names,
        "dataType": type_to_json(change.type),
        "comment": change.description,
        "move": None if change.position is None else _move(names[-1], change.position),
    }
    if change.default_value is None:
        return [added]
    return [added, _default(names, change.default_value)]


def _default(names: list[str], value: str | None) -> Json:
    return {"action": "updateColumnDefaultValue", "fieldNames": names, "newDefaultValue": value}


def _moved(change: changes.UpdateColumnPosition) -> Json:
    names = _names(change.name)
    if len(names) > 1:
        raise NotSupportedError(
            f"Paimon's REST interface moves columns of a table, not the nested field {'.'.join(names)!r}."
        )
    return {"action": "updateColumnPosition", "move": _move(names[0], change.position)}


_ACTIONS: Mapping[type[changes.SchemaChange], Callable[[Any], Json]] = {
    changes.SetOption: lambda c: {"action": "setOption", "key": c.key, "value": c.value},
    changes.RemoveOption: lambda c: {"action": "removeOption", "key": c.key},
    changes.UpdateComment: lambda c: {"action": "updateComment", "comment": c.comment},
    changes.RenameColumn: lambda c: {"action": "renameColumn", "fieldNames": _names(c.name), "newName": c.new_name},
    changes.DropColumn: lambda c: {"action": "dropColumn", "fieldNames": _names(c.name)},
    changes.UpdateColumnType: lambda c: {
        "action": "updateColumnType",
        "fieldNames": _names(c.name),
        "newDataType": type_to_json(c.type),
        "keepNullability": c.keep_nullability,
    },
    changes.UpdateColumnNullability: lambda c: {
        "action": "updateColumnNullability",
        "fieldNames": _names(c.name),
        "newNullability": c.nullable,
    },
    changes.UpdateColumnComment: lambda c: {
        "action": "updateColumnComment",
        "fieldNames": _names(c.name),
        "newComment": c.description,
    },
    changes.UpdateColumnDefault: lambda c: _default([c.name], c.default_value),
    changes.UpdateColumnPosition: _moved,
}


# -- views -------------------------------------------------------------------------------------------------------------


def view_to_json(view: View) -> Json:
    """Return the schema of a new view, whose query is Spark's; raises InvalidInputError for an unknown type."""
    fields = [
        {
            "id": number,
            "name": column.name,
            "type": type_to_json(data_type(paimon_type(column.type))),
            **({} if column.comment is None else {"description": column.comment}),
        }
        for number, column in enumerate(view.columns)
    ]
    return {
        "fields": fields,
        "query": view.query,
        "dialects": {_SPARK: view.query},
        "comment": view.comment,
        "options": dict(view.options),
    }


def view_changes(present: View, wanted: View, *, has_dialect: bool) -> list[Json]:
    """Return the changes that make one view of another with the same columns (paimon-api's ViewChange). Pure.

    `has_dialect` says that the present view has a query of Spark.
    """
    found: list[Json] = []
    if present.query != wanted.query:
        action = "updateDialect" if has_dialect else "addDialect"
        found.append({"action": action, "dialect": _SPARK, "query": wanted.query})
    if present.comment != wanted.comment:
        found.append({"action": "updateComment", "comment": wanted.comment})
    removed = sorted(present.options.keys() - wanted.options.keys())
    changed = sorted(wanted.options.items() - present.options.items())
    found += [{"action": "removeOption", "key": key} for key in removed]
    found += [{"action": "setOption", "key": key, "value": value} for key, value in changed]
    return found


def _text(value: Json, member: str) -> str:
    text = value[member]
    if not isinstance(text, str):
        raise TypeError(f"the member {member!r} is {text!r}, which is no text")
    return text


def has_dialect(value: Json) -> bool:
    """Return whether the view of a response has a query of Spark."""
    schema = value.get("schema")
    return isinstance(schema, Mapping) and _SPARK in (schema.get("dialects") or {})


def view_from_json(value: Json, type_name: Callable[[Any], str], *, source: str) -> View:
    """Return the view of a response; `type_name` names a type. Raises CorruptFileError naming `source`."""
    try:
        schema = value["schema"]
        fields = [field_from_json(field) for field in schema.get("fields") or ()]
        query = (schema.get("dialects") or {}).get(_SPARK) or schema["query"]
        return View(
            query=str(query),
            columns=tuple(ViewColumn(f.name, type_name(f.type), f.description) for f in fields),
            comment=schema.get("comment"),
            options={str(k): str(v) for k, v in (schema.get("options") or {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"{source} has no valid view: {error!r}") from error
