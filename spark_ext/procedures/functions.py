"""Procedures about functions, and of the statements CREATE, DROP, SHOW and DESCRIBE FUNCTION.

Documentation page `spark/procedures` of Paimon: `create_function`, `alter_function` and `drop_function`. Parameters are
JSON as in a schema: `[{"id": 0, "name": "x", "type": "INT"}]`; a change is the JSON of Paimon's REST interface.

Spark runs definitions in SQL: the one named `spark`, or the one named `sql`. The JVM gets the expression with the types
of the parameters and of the result, and puts it in the place of the call.
"""

import json
from dataclasses import replace
from typing import Any

from interbed.catalog.client.errors import DatabaseNotFoundError, FunctionNotFoundError
from interbed.catalog.client.functions import CatalogFunction, FunctionChange, FunctionDefinition, FunctionName
from interbed.spark_ext.procedures.procedure import (
    DONE,
    Answer,
    ArgumentType,
    Procedure,
    ProcedureCall,
    column,
    name_parts,
    optional,
    required,
)
from interbed.spark_ext.values.spark_types import type_from_spark, type_to_spark
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import DataField

_ENGINE = "spark"

_FUNCTION = required("function")


def _name(call: ProcedureCall) -> FunctionName:
    """Parse the function of the call: `f`, `db.f`, `lake.db.f`, each part also in backticks."""
    text = str(call.needed("function"))
    parts = name_parts(text)
    if parts is not None and len(parts) == 3 and parts[0].lower() == call.catalog_name.lower():
        parts = parts[1:]
    if parts is None or len(parts) > 2:
        raise call.error(
            "function", f"names no function of the catalog '{call.catalog_name}': {text!r}; write 'database.function'"
        )
    return _checked(call, *((call.namespace, parts[0]) if len(parts) == 1 else parts))


def _checked(call: ProcedureCall, database: str, function: str) -> FunctionName:
    try:
        return FunctionName.of(f"{database}.{function}")
    except InvalidInputError as error:
        raise call.error("function", str(error)) from error


def _create(call: ProcedureCall) -> Answer:
    name = _name(call)
    value = {
        "name": name.function,
        "inputParams": _json(call, "inputParams"),
        "returnParams": _json(call, "returnParams"),
        "deterministic": call.given("deterministic") is not False,
        "definitions": {},
        "comment": call.given("comment"),
        "options": call.options(),
    }
    try:
        function = CatalogFunction.from_json(value, source="The call")
    except CorruptFileError as error:
        raise call.error("inputParams", f"or returnParams is no list of fields: {error}") from error
    call.catalog.create_function(name, function)
    return DONE


def _json(call: ProcedureCall, argument: str) -> Any:
    try:
        return json.loads(str(call.needed(argument)))
    except ValueError as error:
        raise call.error(argument, f"is no JSON: {error}") from error


def _alter(call: ProcedureCall) -> Answer:
    value = _json(call, "change")
    if not isinstance(value, dict) or not isinstance(value.get("action"), str):
        raise call.error("change", 'is an object such as {"action": "addDefinition", "name": …, "definition": …}')
    change = FunctionChange(value["action"], {key: each for key, each in value.items() if key != "action"})
    call.catalog.alter_function(_name(call), change)
    return DONE


def _drop(call: ProcedureCall) -> Answer:
    call.catalog.drop_function(_name(call))
    return DONE


PROCEDURES = (
    Procedure(
        name="create_function",
        description="Creates a function with its parameters and its result; alter_function adds definitions.",
        parameters=(
            _FUNCTION,
            required("inputParams"),
            required("returnParams"),
            optional("deterministic", ArgumentType.BOOLEAN),
            optional("comment"),
            optional("options"),
        ),
        call=_create,
    ),
    Procedure(
        name="alter_function",
        description="Changes a function: a definition, an option or the comment.",
        parameters=(_FUNCTION, required("change")),
        call=_alter,
    ),
    Procedure(
        name="drop_function", description="Drops a function with its definitions.", parameters=(_FUNCTION,), call=_drop
    ),
)


# -- statements --------------------------------------------------------------------------------------------------------


def _list_statement(call: ProcedureCall) -> Answer:
    try:
        return [(name,) for name in call.catalog.list_functions(call.needed("database"))]
    except (NotSupportedError, DatabaseNotFoundError):
        # SHOW FUNCTIONS lists those of Spark and of other catalogs in any case.
        return ()


def _load_statement(call: ProcedureCall) -> Answer:
    """Return no row if there is no such function, so that Spark looks for it elsewhere."""
    try:
        name = FunctionName.of(f"{call.needed('database')}.{call.needed('function')}")
        found = call.catalog.get_function(name)
    except (FunctionNotFoundError, DatabaseNotFoundError, InvalidInputError, NotSupportedError):
        return ()
    return ((json.dumps(_spark_function(name, found)),),)


def _spark_function(name: FunctionName, function: CatalogFunction) -> dict[str, Any]:
    """Return what the JVM needs of a function; `refusal` is the reason why Spark does not run it."""
    sql, refusal = function.sql_for(_ENGINE), None
    returned = function.return_params or ()
    if sql is None:
        refusal = function.no_sql_for(_ENGINE, name)
    elif len(returned) > 1:
        refusal = f"The function '{name}' returns {len(returned)} columns; only functions with one result are run."
    params = [
        {"name": each.name, "type": json.dumps(type_to_spark(each.type)), "comment": each.description}
        for each in function.input_params or ()
    ]
    return {
        "sql": sql,
        "refusal": refusal,
        "params": params,
        "result": json.dumps(type_to_spark(returned[0].type)) if len(returned) == 1 else None,
        "deterministic": function.deterministic,
        "signature": function.signature(name),
        "comment": function.comment,
        "definitions": [
            f"{engine} ({each.kind}): {each.definition or json.dumps(each.to_json())}"
            for engine, each in function.definitions.items()
        ],
    }


def _create_statement(call: ProcedureCall) -> Answer:
    name = _checked(call, call.needed("database"), call.needed("function"))
    given = json.loads(call.needed("definition"))
    function = CatalogFunction(
        definitions={_ENGINE: FunctionDefinition.of_sql(given["sql"])},
        input_params=_fields(given["params"]),
        return_params=_fields([{"name": "result", "type": given["result"], "comment": None}]),
        deterministic=given["deterministic"],
        comment=given["comment"],
    )
    if not given["replace"]:
        call.catalog.create_function(name, function, ignore_if_exists=given["ifNotExists"])
        return ()
    try:
        present = call.catalog.get_function(name)
    except FunctionNotFoundError:
        call.catalog.create_function(name, function)
        return ()
    if replace(present, definitions=function.definitions, comment=function.comment, options={}) != function:
        raise NotSupportedError(
            f"The function '{name}' is not replaced: Paimon's REST interface changes definitions, and not parameters "
            f"and results. It is {present.signature(name)}. Drop it and create it again."
        )
    is_new = _ENGINE not in present.definitions
    change = FunctionChange.add_definition if is_new else FunctionChange.update_definition
    changes = [change(_ENGINE, function.definitions[_ENGINE])]
    if present.comment != function.comment:
        changes.append(FunctionChange.update_comment(function.comment))
    call.catalog.alter_function(name, changes)
    return ()


def _fields(given: list[dict[str, Any]]) -> tuple[DataField, ...]:
    return tuple(
        DataField(number, each["name"], type_from_spark(json.loads(each["type"]), column=each["name"]), each["comment"])
        for number, each in enumerate(given)
    )


def _drop_statement(call: ProcedureCall) -> Answer:
    name = _checked(call, call.needed("database"), call.needed("function"))
    call.catalog.drop_function(name, ignore_if_not_exists=call.given("ifExists") == "true")
    return ()


_DATABASE = required("database")

STATEMENTS = (
    Procedure(
        name="list_functions_statement",
        description="SHOW FUNCTIONS",
        parameters=(_DATABASE,),
        columns=(column("function"),),
        call=_list_statement,
        is_statement=True,
    ),
    Procedure(
        name="load_function_statement",
        description="a call of a function",
        parameters=(_DATABASE, _FUNCTION),
        columns=(column("function"),),
        call=_load_statement,
        is_statement=True,
    ),
    Procedure(
        name="create_function_statement",
        description="CREATE FUNCTION",
        parameters=(_DATABASE, _FUNCTION, required("definition")),
        columns=(),
        call=_create_statement,
        is_statement=True,
    ),
    Procedure(
        name="drop_function_statement",
        description="DROP FUNCTION",
        parameters=(_DATABASE, _FUNCTION, required("ifExists")),
        columns=(),
        call=_drop_statement,
        is_statement=True,
    ),
)
"""Procedures of the statements, by their SQL."""
