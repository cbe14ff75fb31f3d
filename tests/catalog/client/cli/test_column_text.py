"""Columns written as text on the command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.client.cli.forms.column_text import column_text, numbered_columns, parse_column, type_text
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    parse_atomic,
)

ATOMIC = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "STRING", "CHAR(3)",
    "VARCHAR(7)", "BYTES", "BINARY(4)", "VARBINARY(9)", "DATE", "TIME(3)", "TIMESTAMP(6)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
]  # fmt: skip
NAMES = st.one_of(st.from_regex(r"[a-z]\w*", fullmatch=True), st.text(min_size=1, max_size=6))
COMMENTS = st.none() | st.text(max_size=6)


def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    nullable = st.booleans()
    fields = st.builds(DataField, id=st.just(0), name=NAMES, type=inner, description=COMMENTS)
    return st.one_of(
        st.builds(ArrayType, inner, nullable=nullable),
        st.builds(MultisetType, inner, nullable=nullable),
        st.builds(MapType, inner.map(lambda t: t.with_nullable(False)), inner, nullable=nullable),
        st.builds(
            RowType, st.lists(fields, min_size=1, max_size=3, unique_by=lambda f: f.name).map(tuple), nullable=nullable
        ),
    )


ATOMIC_TYPES = st.builds(
    lambda text, nullable: parse_atomic(text).with_nullable(nullable), st.sampled_from(ATOMIC), st.booleans()
)
TYPES: st.SearchStrategy[DataType] = st.recursive(ATOMIC_TYPES, nested, max_leaves=5)


@given(st.builds(DataField, id=st.just(0), name=NAMES, type=TYPES, description=COMMENTS))
def test_the_text_of_a_column_parses_to_the_same_column(column: DataField) -> None:
    assert parse_column(column_text(column)) == column


def test_columns_parse_in_any_letter_case_and_spacing() -> None:
    assert parse_column("id bigint not null").type == AtomicType(TypeRoot.BIGINT, nullable=False)
    assert parse_column("`a b` decimal ( 10 , 2 )").name == "a b"
    assert type_text(parse_column("m map<string,array<int not null>> not null").type) == (
        "MAP<STRING NOT NULL, ARRAY<INT NOT NULL>> NOT NULL"
    )
    assert column_text(parse_column("r row<a int comment 'it''s', \"b c\" time(3)>")) == (
        "r ROW<a INT COMMENT 'it''s', \"b c\" TIME(3)>"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no name"),
        ("id", "the column 'id' has no type"),
        ("id BIGNT", "there is no type 'BIGNT'. Did you mean 'BIGINT'?"),
        ("id BIGINT NOT", "there is no type 'BIGINT NOT'"),
        ("id BIGINT DEFAULT 5", "there is no type 'BIGINT DEFAULT 5'"),
        ("a ARAY<INT>", "ARAY has no '<'. Did you mean 'ARRAY'?"),
        ("a ARRAY<INT", "a '>' is missing before ''"),
        ("m MAP<INT>", "a ',' is missing before '>'"),
        ("a ARRAY<INT> NOT x", "NOT is followed by NULL"),
        ("a INT COMMENT x", "COMMENT is followed by a text"),
        ("a INT COMMENT 'x' y", "what is 'y'?"),
        ("a INT, b INT", "what is ', b INT'?"),
        ("'a' INT", "\"'a'\" is no name"),
    ],
)
def test_text_that_is_not_a_column_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_column(text)
    assert message in str(caught.value)
    assert "Write NAME TYPE" in str(caught.value)


def test_field_ids_are_assigned_as_in_paimon() -> None:
    columns = numbered_columns(map(parse_column, ("a ROW<x INT, y ROW<z INT>>", "b INT")))
    assert [c.id for c in columns] == [0, 1]
    row = columns[0].type
    assert isinstance(row, RowType)
    assert [f.id for f in row.fields] == [2, 3]
