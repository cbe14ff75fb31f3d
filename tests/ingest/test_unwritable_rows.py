"""A row that its table can't store is a bad message in every format: only it is skipped, and the error names it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interbed import DataField, Schema, data_type
from interbed.ingest.flow.messages import BadMessageError, Messages
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.every_format import FORMATS, GUESSED, STATED, Row, RowChange, ingested, place_of, written
from tests.ingest.shop import lake
from tests.support.tally import Tally

TYPES = {"id": "bigint", "qty": "int", "name": "text", "code": "text", "tags": "texts", "created": "text"}
GOOD: Row = {"id": 1, "qty": 5, "name": "a"}
WITH_LISTS = tuple(form for form in FORMATS if form != "canal-json")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwritableCase:
    """A change that a table can't store, the table, the formats that can express it, and the text that the error
    contains.
    """

    names: str
    change: RowChange
    columns: tuple[str, ...] = ("id BIGINT", "qty INT NOT NULL", "name STRING")
    keys: tuple[str, ...] = ("id",)
    partitions: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    formats: tuple[str, ...] = FORMATS
    computed: tuple[str, ...] = ()
    good: Row = field(default_factory=lambda: GOOD)
    types: Mapping[str, str] = field(default_factory=lambda: TYPES)

    @property
    def schema(self) -> Schema:
        fields = [
            DataField(id=i, name=c.split()[0], type=data_type(c.split(maxsplit=1)[1]))
            for i, c in enumerate(self.columns)
        ]
        options = {"bucket": "1" if self.keys else "-1", **self.options}
        return Schema(fields=fields, primary_keys=self.keys, partition_keys=self.partitions, options=options)

    def changes(self) -> list[RowChange]:
        """Return two changes that the table stores, with this one between them."""
        return [RowChange(after=self.good), self.change, RowChange(after={**self.good, "id": 3})]


def row(**values: Any) -> RowChange:
    """Return an insertion of the second row with some other values; `...` omits a column."""
    return RowChange(after={n: v for n, v in {**GOOD, "id": 2, **values}.items() if v is not ...})


UNWRITABLE: Mapping[str, UnwritableCase] = {
    "a key that is null": UnwritableCase(change=row(id=None), names="'id' is null"),
    # A PostgreSQL relation message without the column describes a table with another key.
    "a key that is missing": UnwritableCase(
        change=row(id=...),
        names="'id' is (null|missing)",
        formats=tuple(form for form in FORMATS if form != "pgoutput"),
    ),
    "a null in a NOT NULL column": UnwritableCase(change=row(qty=None), names="'qty' is null"),
    "a NOT NULL column that is missing": UnwritableCase(change=row(qty=...), names="'qty' is (null|missing)"),
    "a key that is too large": UnwritableCase(
        change=row(id=2**40), columns=("id INT", "qty INT", "name STRING"), names=f"'id' has {2**40}"
    ),
    "a key whose type became wider at the source": UnwritableCase(
        change=row(id=2**40),
        columns=("id INT", "qty INT", "name STRING"),
        formats=STATED,
        names="the source's type is BIGINT now, and a key column keeps its type INT",
    ),
    "a key that is too long": UnwritableCase(
        change=row(code="abcd"),
        good={**GOOD, "code": "abc"},
        columns=("id BIGINT", "qty INT", "name STRING", "code VARCHAR(3)"),
        keys=("id", "code"),
        names="'code' has 'abcd'",
    ),
    "a text for a number": UnwritableCase(
        change=row(qty="many"),
        formats=GUESSED,
        names="'qty' has 'many'",
        columns=("id BIGINT", "qty INT", "name STRING"),
    ),
    "a text that is no date": UnwritableCase(
        change=row(name="soon"),
        good={**GOOD, "name": "2026-01-31"},
        columns=("id BIGINT", "qty INT", "name DATE"),
        formats=GUESSED,
        names="'name' has 'soon'",
    ),
    "a number with too many digits": UnwritableCase(
        change=row(qty=1000),
        columns=("id BIGINT", "qty DECIMAL(3, 0)", "name STRING"),
        keys=("id", "qty"),
        formats=GUESSED,
        names="'qty' has (1000|Decimal)",
    ),
    "an object for a text": UnwritableCase(
        change=row(qty={"a": 1}), columns=("id BIGINT", "qty INT", "name STRING"), formats=GUESSED, names="'qty' has"
    ),
    "a text for an object": UnwritableCase(
        change=row(name="b"),
        good={**GOOD, "name": {"a": 1}},
        columns=("id BIGINT", "qty INT", "name ROW<a INT>"),
        formats=GUESSED,
        names="'name' has 'b'",
    ),
    "an object with a field of another type": UnwritableCase(
        change=row(name={"a": "x"}),
        good={**GOOD, "name": {"a": 1}},
        columns=("id BIGINT", "qty INT", "name ROW<a INT>"),
        formats=GUESSED,
        names="'name' has {'a': 'x'}",
    ),
    "a number for a list": UnwritableCase(
        change=row(name=[["x"]]),
        good={**GOOD, "name": [1]},
        columns=("id BIGINT", "qty INT", "name ARRAY<INT>"),
        formats=GUESSED,
        names="'name' has",
    ),
    "a null in a list that takes none": UnwritableCase(
        change=row(tags=["x", None]),
        good={**GOOD, "tags": ["x"]},
        columns=("id BIGINT", "qty INT", "name STRING", "tags ARRAY<STRING NOT NULL>"),
        formats=WITH_LISTS,
        names="'tags' has",
    ),
    "a partition without a directory": UnwritableCase(
        change=row(code="x" * 300),
        good={**GOOD, "code": "x"},
        columns=("id BIGINT", "qty INT", "name STRING", "code STRING"),
        keys=("id", "code"),
        partitions=("code",),
        names="code = 'xxx",
    ),
    "a deletion that the table does not take": UnwritableCase(
        change=RowChange(before=GOOD), options={"merge-engine": "first-row"}, names="takes a row back"
    ),
    "a deletion without the columns that are NOT NULL": UnwritableCase(
        change=RowChange(before={"id": 1, "qty": None, "name": None}), names="'qty' is (null|missing)"
    ),
    "a change of a table without a key": UnwritableCase(
        change=RowChange(before=GOOD), keys=(), names="no primary key to find it by"
    ),
    "a column that differs from another by case alone": UnwritableCase(
        change=row(NAME="b"), formats=GUESSED, names="'NAME', with 'b', differs from 'name' by case alone"
    ),
    "a column with a name of the format": UnwritableCase(
        change=row(_KEY_id=2), formats=GUESSED, names="'_KEY_id', with 2, has a name that no column can have"
    ),
    "a column with a blank name": UnwritableCase(
        change=row(**{" ": 2}), formats=GUESSED, names="column ' ', with 2, has a name that no column can have"
    ),
    "a new field with a blank name": UnwritableCase(
        change=row(place={"a": 1, "": 2}),
        good={**GOOD, "place": {"a": 1}},
        formats=GUESSED,
        names="'place' has (a field with a blank name|.* it has the field '')",
    ),
    "a new field with a blank name in a ROW that the table has": UnwritableCase(
        change=row(place={"a": 1, " ": 2}),
        good={**GOOD, "place": {"a": 1}},
        columns=("id BIGINT", "qty INT", "name STRING", "place ROW<a BIGINT>"),
        formats=GUESSED,
        names="'place' has .* it has the field ' '",
    ),
    "a row kind that is none": UnwritableCase(
        change=row(code="?"),
        good={**GOOD, "code": "+I"},
        columns=("id BIGINT", "qty INT", "name STRING", "code STRING"),
        options={"rowkind.field": "code"},
        names=r"'code' \(rowkind.field\) has '\?'",
    ),
    "a value that a column can't be computed of": UnwritableCase(
        change=row(created="yesterday"),
        good={**GOOD, "created": "2026-01-31 10:00:00"},
        columns=("id BIGINT", "qty INT", "name STRING", "created STRING", "dt STRING"),
        computed=("dt=date_format(created,'yyyy-MM-dd')",),
        names="'dt' can't be made of its column 'created', which has 'yesterday'",
    ),
    "a computed key that is null": UnwritableCase(
        change=row(created=None),
        good={**GOOD, "created": "2026-01-31 10:00:00"},
        columns=("id BIGINT", "qty INT", "name STRING", "created STRING", "dt STRING"),
        keys=("id", "dt"),
        partitions=("dt",),
        computed=("dt=date_format(created,'yyyy-MM-dd')",),
        names="'dt' is null",
    ),
}


class MemoryDeadLetters:
    """Dead letter queue in memory."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int, str]] = []

    def put(self, messages: Messages, index: int, reason: str) -> None:
        self.found.append((messages.topic, int(messages.offsets[index]), reason))

    def flush(self) -> None:
        pass


@pytest.mark.sample(6)
@pytest.mark.parametrize("size", [1000, 1])
@pytest.mark.parametrize("kind", UNWRITABLE)
def test_only_the_unwritable_row_is_skipped_and_named(tmp_path: Path, kind: str, size: int, tally: Tally) -> None:
    case = UNWRITABLE[kind]
    for form in case.formats:
        changes = case.changes()
        stream = written(form, changes, case.types)
        place = place_of(form, changes, case.types, 1)
        computed = [ComputedColumn.parse(text) for text in case.computed]
        options: dict[str, Any] = {"tables": TableSettings(computed=computed), "sizes": [size]}
        for fate in BadMessages:
            catalog = lake(tmp_path / f"{form}-{fate}")
            catalog.create_database("shop")
            catalog.create_table("shop.orders", case.schema)
            letters = MemoryDeadLetters()
            tally("unwritable rows in every format, stopped at, skipped, put aside", 1)
            if fate is BadMessages.STOP:
                with pytest.raises(BadMessageError) as caught:
                    ingested(catalog, stream, **options)
                text = str(caught.value)
                assert f"topic t, partition 0, offset {place} can't be taken: " in text, (form, text)
                assert re.search(case.names, text), (form, text)
                continue
            run = ingested(catalog, stream, bad_messages=fate, dead_letters=letters, **options)
            assert run.result.bad == 1, form
            found = catalog.get_table("shop.orders").scan().to_arrow()
            assert set(found["id"].to_pylist()) == {1, 3}, form
            if fate is BadMessages.DEAD_LETTER:
                [(topic, offset, reason)] = letters.found
                assert (topic, offset) == ("t", place), form
                assert re.search(case.names, reason), (form, reason)


@pytest.mark.sample(4)
@pytest.mark.parametrize("form", GUESSED)
@pytest.mark.parametrize("name", ["ID", "", "_VALUE_KIND"])
def test_a_table_is_not_created_with_an_impossible_column(tmp_path: Path, form: str, name: str) -> None:
    changes = [RowChange(after={**GOOD, name: 5}), RowChange(after={**GOOD, "id": 2})]
    for size in (1000, 1):
        with pytest.raises(BadMessageError, match=f"offset 0 can't be taken: its column '{name}', with 5, "):
            ingested(lake(tmp_path / f"stop{size}"), written(form, changes, TYPES), sizes=[size])
        catalog = lake(tmp_path / f"skip{size}")
        ingested(catalog, written(form, changes, TYPES), sizes=[size], bad_messages=BadMessages.SKIP)
        table = catalog.get_table("shop.orders")
        assert table.schema.names == ("id", "qty", "name")
        assert table.scan().to_arrow()["id"].to_pylist() == [2]


@pytest.mark.sample(5)
@pytest.mark.parametrize("form", STATED + GUESSED)
@pytest.mark.parametrize("missing", [True, False])
def test_a_table_is_not_created_with_a_row_that_has_no_key(tmp_path: Path, form: str, missing: bool) -> None:
    """The first message may be the bad one: the table is created with the others."""
    keyless = row(id=...) if missing else row(id=None)
    changes = [keyless, RowChange(after=GOOD)]
    stream = written(form, changes, TYPES)
    for size in (1000, 1):
        with pytest.raises(BadMessageError, match=r"offset [01] can't be taken: its column 'id' of the primary key is"):
            ingested(lake(tmp_path / f"stop{size}"), stream, sizes=[size])
        catalog = lake(tmp_path / f"skip{size}")
        run = ingested(catalog, stream, sizes=[size], bad_messages=BadMessages.SKIP)
        assert run.result.bad == 1
        assert catalog.get_table("shop.orders").scan().to_arrow()["id"].to_pylist() == [1]
