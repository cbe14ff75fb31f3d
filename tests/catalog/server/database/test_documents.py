"""Documents of the database's rows: JSON in ASCII by either encoder, and a table's document that is read and kept."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.database.documents import compact_json, table_document, table_from
from interbed.catalog.server.database.events import packed_body, unpacked_body
from interbed.catalog.server.service.events import EventBody
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable, StorageDescriptor, column_of

TEXTS = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF, categories=None))
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
TABLE = MetastoreTable(
    database="d",
    name="t",
    storage=StorageDescriptor(
        columns=(MetastoreColumn(name="id", type="int"), MetastoreColumn(name="é", type="int", comment="\x00\ud800")),
        location="file:/w/d.db/t",
        parameters={},
    ),
    parameters={"a": "b\x1f", "c": "\U0001f4a9"},
    number=7,
)


@given(VALUES)
def test_json_is_the_same_as_that_of_the_standard_library(value: object) -> None:
    text = compact_json(value)
    assert text == json.dumps(value, separators=(",", ":"))
    assert text.isascii()


def test_floats_that_are_not_finite_are_kept_in_details_of_events() -> None:
    body = EventBody(table=TABLE, details={"statistics": {"low": math.nan, "high": math.inf}})
    kept = unpacked_body(packed_body(body))
    assert math.isnan(kept.details["statistics"]["low"])
    assert kept.details["statistics"]["high"] == math.inf
    assert kept.table == TABLE


def test_a_table_that_was_read_has_the_document_that_was_read() -> None:
    document = table_document(TABLE)
    read = table_from("hive", "d", "t", TABLE.table_type, document, 1)
    assert read == TABLE
    assert read.number == 7
    assert table_document(read) is document
    # Another one is read in between.
    other = table_from("hive", "d", "u", TABLE.table_type, table_document(MetastoreTable(database="d", name="u")), 2)
    assert table_document(read) == document
    assert table_document(other) != document


def test_a_document_without_a_number_is_written_with_that_of_its_row() -> None:
    read = table_from("hive", "d", "t", TABLE.table_type, '{"owner":"ann"}', 12)
    assert json.loads(table_document(read)) == {
        "owner": "ann",
        "number": 12,
        "create_time": 0,
        "last_access_time": 0,
        "retention": 0,
    }


@pytest.mark.parametrize("comment", [None, "", "short", "x" * 300])
def test_a_column_has_what_it_was_made_of(comment: str | None) -> None:
    found = column_of("id", "int", comment)
    assert found == MetastoreColumn(name="id", type="int", comment=comment)
    assert column_of("id", None, comment).type is None
