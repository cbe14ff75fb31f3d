"""Conversion to a pandas data frame keeps integers exact."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from interbed.storage.base.row.python_values import pandas_frame

BIG = 2**53 + 1


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([BIG, None], pa.int64()), [BIG, None]),
        (pa.array([-BIG, None], pa.int64()), [-BIG, None]),
        (pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
        (pa.array([{"x": BIG}, {"x": None}]), [{"x": BIG}, {"x": None}]),
        (pa.array([[("k", BIG), ("l", None)]], pa.map_(pa.string(), pa.int64())), [[("k", BIG), ("l", None)]]),
    ],
    ids=["large", "small", "unsigned", "row", "map"],
)
def test_large_integers_beside_nulls_are_exact(column: Any, expected: list[Any]) -> None:
    frame = pandas_frame(pa.table([column, column], names=["a", "a"]))
    for place in range(2):
        assert frame.iloc[:, place].tolist() == expected


def test_large_integers_inside_lists_are_exact() -> None:
    frame = pandas_frame(pa.table({"a": pa.array([[BIG, None], None])}))
    assert frame["a"][0].tolist() == [BIG, None]


def test_small_integers_get_the_dtype_that_pandas_chooses() -> None:
    frame = pandas_frame(pa.table({"a": pa.array([2**53, None]), "b": pa.array([BIG, 1])}))
    assert frame.dtypes.astype(str).tolist() == ["float64", "int64"]
    assert pd.isna(frame["a"][1])
    assert frame["b"].tolist() == [BIG, 1]
