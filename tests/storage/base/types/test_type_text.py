"""Messages show types in SQL's notation (`STRING`, `DECIMAL(12, 2) NOT NULL`), not in Python's."""

import ast

import pytest

from interbed.storage.base.errors import InterbedError
from interbed.storage.base.row.values import type_name
from interbed.storage.base.types.arrow import data_type as parsed
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from interbed.storage.meta.schema.apply import apply_changes
from interbed.storage.meta.schema.change import UpdateColumnType
from interbed.storage.meta.schema.table_schema import Schema
from tests.support.packages import ROOT, source_files
from tests.support.source_trees import source_tree

STRING = AtomicType("STRING")
PRICE = AtomicType("DECIMAL(12, 2)", False)
TYPES: list[tuple[DataType, str]] = [
    (STRING, "STRING"),
    (PRICE, "DECIMAL(12, 2) NOT NULL"),
    (AtomicType("BYTES"), "BYTES"),
    (AtomicType("TIMESTAMP(3)"), "TIMESTAMP(3)"),
    (ArrayType(PRICE), "ARRAY<DECIMAL(12, 2) NOT NULL>"),
    (MapType(STRING, ArrayType(STRING)), "MAP<STRING, ARRAY<STRING>>"),
    (MultisetType(STRING, nullable=False), "MULTISET<STRING> NOT NULL"),
    (RowType((DataField(0, "price", PRICE),)), "ROW<price DECIMAL(12, 2) NOT NULL>"),
]


@pytest.mark.parametrize(("data_type", "text"), TYPES)
def test_a_type_is_shown_in_sql_notation_alone_and_in_a_list(data_type: DataType, text: str) -> None:
    assert str(data_type) == f"{data_type}" == text
    assert text in f"{[data_type]}"
    assert "TypeRoot" not in repr((data_type, DataField(1, "x", data_type)))
    assert type_name(data_type) == text.removesuffix(" NOT NULL")


def test_a_refused_change_names_both_types() -> None:
    schema = Schema([DataField(0, "a", ArrayType(PRICE)), DataField(1, "b", STRING)]).to_table_schema(time_millis=0)
    with pytest.raises(InterbedError, match=r"from ARRAY<DECIMAL\(12, 2\) NOT NULL> to MAP<INT NOT NULL, STRING>"):
        apply_changes(schema, [UpdateColumnType("a", parsed("MAP<INT NOT NULL, STRING>"))])


def test_no_message_shows_the_repr_or_the_json_of_a_type() -> None:
    found = []
    for path in source_files():
        for node in ast.walk(source_tree(path)):
            if isinstance(node, ast.FormattedValue):
                text = ast.unparse(node.value)
                of_a_type = text.rpartition(".")[2] in ("type", "data_type") or text.endswith(("_type", "_types"))
                if "type_to_json(" in text or (of_a_type and node.conversion == ord("r")):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert found == []
