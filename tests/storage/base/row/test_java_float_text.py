"""Floats in partition names are formatted as Java formats them."""

import pytest

from interbed.storage.base.row.values import java_float_text, to_float32


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-2.5e300, "-2.5E300"),
        (0.1 + 0.2, "0.30000000000000004"),
        (5e-324, "4.9E-324"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_formatted_as_in_java(value: float, text: str) -> None:
    assert java_float_text(value, single=False) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.1, "0.1"), (-1.1, "-1.1"), (16777216.0, "1.6777216E7"), (1e-45, "1.4E-45")]
)
def test_floats_are_formatted_as_in_java(value: float, text: str) -> None:
    assert java_float_text(to_float32(value), single=True) == text
