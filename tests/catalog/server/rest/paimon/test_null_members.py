"""Members of requests that are null, or no text, where a text has to be: they are refused, and not read as `None`."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from interbed.catalog.client.api import View
from interbed.catalog.client.rest.messages import TableEntry
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.rest.paimon.databases import changed_function
from interbed.catalog.server.rest.paimon.messages import FunctionBody
from interbed.catalog.server.rest.paimon.schema_json import given_changes, given_fields
from interbed.catalog.server.rest.paimon.views import changed_view
from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.types.data_type import field_from_json

NO_TEXTS: tuple[Any, ...] = (None, 5, ["a"], {"a": 1})
ROW = {"type": "ROW", "fields": [{"id": 1, "name": None, "type": "INT"}]}


@pytest.mark.parametrize("name", NO_TEXTS, ids=str)
def test_a_field_with_a_name_that_is_no_text_is_refused(name: Any) -> None:
    field = {"id": 0, "name": name, "type": "INT"}
    with pytest.raises(CorruptFileError, match=r"The member 'name' of a field is .*, which is no text"):
        field_from_json(field)
    with pytest.raises(RestError, match="'name' of a field") as refused:
        given_fields([field])
    assert refused.value.status == 400


def test_a_nested_field_without_a_name_is_refused() -> None:
    with pytest.raises(RestError, match="'name' of a field is None"):
        given_fields([{"id": 0, "name": "r", "type": ROW}])


CHANGES: tuple[Callable[[Any], dict[str, Any]], ...] = (
    lambda value: {"action": "setOption", "key": value, "value": "v"},
    lambda value: {"action": "removeOption", "key": value},
    lambda value: {"action": "addColumn", "fieldNames": [value], "dataType": "INT"},
    lambda value: {"action": "renameColumn", "fieldNames": ["a"], "newName": value},
    lambda value: {"action": "dropColumn", "fieldNames": [value]},
    lambda value: {"action": "updateColumnPosition", "move": {"type": "FIRST", "fieldName": value}},
    lambda value: {
        "action": "updateColumnPosition",
        "move": {"type": "AFTER", "fieldName": "a", "referenceFieldName": value},
    },
    lambda value: {
        "action": "updateColumnPosition",
        "move": {"type": "BEFORE", "fieldName": "a", "referenceFieldName": value},
    },
)


@pytest.mark.parametrize("value", NO_TEXTS, ids=str)
@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_a_change_of_a_schema_with_a_member_that_is_no_text_is_refused(change: int, value: Any) -> None:
    with pytest.raises((RestError, InvalidInputError)):
        given_changes([CHANGES[change](value)])


def test_an_option_without_a_value_is_not_set() -> None:
    with pytest.raises((RestError, InvalidInputError), match="no value"):
        given_changes([{"action": "setOption", "key": "k", "value": None}])


OF_VIEWS: tuple[Callable[[Any], dict[str, Any]], ...] = (
    lambda value: {"action": "setOption", "key": value, "value": "v"},
    lambda value: {"action": "setOption", "key": "k", "value": value},
    lambda value: {"action": "removeOption", "key": value},
    lambda value: {"action": "addDialect", "dialect": value, "query": "SELECT 1"},
    lambda value: {"action": "addDialect", "dialect": "spark", "query": value},
    lambda value: {"action": "updateDialect", "dialect": value, "query": "SELECT 1"},
    lambda value: {"action": "updateDialect", "dialect": "flink", "query": value},
    lambda value: {"action": "dropDialect", "dialect": value},
)


@pytest.mark.parametrize("value", NO_TEXTS, ids=str)
@pytest.mark.parametrize("change", range(len(OF_VIEWS)))
def test_a_change_of_a_view_with_a_member_that_is_no_text_is_refused(change: int, value: Any) -> None:
    view = changed_view(
        View(query="SELECT 1", columns=()), "v", [{"action": "addDialect", "dialect": "flink", "query": "SELECT 2"}]
    )
    with pytest.raises(RestError) as refused:
        changed_view(view, "v", [OF_VIEWS[change](value)])
    assert refused.value.status == 400


def test_the_comment_of_a_view_may_be_null_and_is_no_object() -> None:
    view = View(query="SELECT 1", columns=(), comment="words")
    assert changed_view(view, "v", [{"action": "updateComment", "comment": None}]).comment is None
    with pytest.raises(RestError, match="The comment is text"):
        changed_view(view, "v", [{"action": "updateComment", "comment": {"a": 1}}])


OF_FUNCTIONS: tuple[Callable[[Any], dict[str, Any]], ...] = (
    lambda value: {"action": "setOption", "key": value, "value": "v"},
    lambda value: {"action": "setOption", "key": "k", "value": value},
    lambda value: {"action": "removeOption", "key": value},
)


@pytest.mark.parametrize("value", NO_TEXTS, ids=str)
@pytest.mark.parametrize("change", range(len(OF_FUNCTIONS)))
def test_a_change_of_a_function_with_a_member_that_is_no_text_is_refused(change: int, value: Any) -> None:
    body = FunctionBody(options={"k": "v"})
    with pytest.raises(RestError) as refused:
        changed_function(body, "f", [OF_FUNCTIONS[change](value)])
    assert refused.value.status == 400
    assert msgspec.to_builtins(body.options) == {"k": "v"}


@pytest.mark.parametrize("member", ["id", "path"])
def test_an_entry_of_a_table_with_a_null_member_is_refused(member: str) -> None:
    schema = {"fields": [{"id": 0, "name": "a", "type": "INT"}]}
    entry = {"id": "1", "path": "/t", "schemaId": 0, "schema": schema, member: None}
    with pytest.raises(CorruptFileError, match=f"'{member}'.*no text"):
        TableEntry.from_json(entry, source="The answer")
