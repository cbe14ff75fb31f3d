"""The JSON in which peers exchange rows is converted to Arrow and back without loss."""

import pytest

from tests.golden.regenerate import cases
from tests.support.peers.json import (
    TypeJson,
    comparable,
    from_json_values,
    parse_type,
    rows_to_table,
    table_to_rows,
    to_json_values,
)


@pytest.mark.parametrize(("types", "rows"), cases(), ids=lambda value: str(value)[:40])
def test_rows_are_unchanged_after_a_round_trip_through_arrow(types: list[TypeJson], rows: list[list[object]]) -> None:
    parsed = [parse_type(of) for of in types]
    names = [f"f{i}" for i in range(len(types))]
    table = rows_to_table(rows, names, parsed)
    assert table_to_rows(table, parsed) == [
        [to_json_values(from_json_values([v], of), of)[0] for v, of in zip(row, parsed, strict=True)] for row in rows
    ]
    assert comparable(table_to_rows(table, parsed), parsed) == comparable(rows, parsed)


@pytest.mark.parametrize(("types", "rows"), cases(), ids=lambda value: str(value)[:40])
def test_slices_of_arrow_columns_keep_their_rows(types: list[TypeJson], rows: list[list[object]]) -> None:
    parsed = [parse_type(of) for of in types]
    table = rows_to_table([*rows, *rows], [f"f{i}" for i in range(len(types))], parsed)
    for start in range(len(rows)):
        piece = table.slice(start, len(rows))
        assert table_to_rows(piece, parsed) == table_to_rows(table, parsed)[start : start + len(rows)]


def test_timestamps_with_more_digits_than_their_type_are_refused() -> None:
    with pytest.raises(ValueError, match="more digits"):
        from_json_values([1], parse_type("TIMESTAMP(3)"))
