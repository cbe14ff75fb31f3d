"""Search forms of partition values: their order by code points is the order of the values by type."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.service.filters.tree import (
    NO_VALUE,
    KeyKind,
    date_form,
    integral_form,
    kind_of_type,
    search_form,
    timestamp_form,
)


@given(st.integers(-(10**20), 10**20), st.integers(-(10**20), 10**20))
def test_search_forms_of_numbers_are_ordered_as_numbers(left: int, right: int) -> None:
    assert (integral_form(left) < integral_form(right)) == (left < right)
    assert integral_form(left) > NO_VALUE


@given(st.dates(), st.dates())
def test_search_forms_of_dates_are_ordered_as_dates(left: date, right: date) -> None:
    assert (date_form(left.isoformat()) < date_form(right.isoformat())) == (left < right)


@given(st.datetimes(), st.timedeltas(timedelta(days=-1), timedelta(days=1)))
def test_search_forms_of_timestamps_are_ordered_in_time(left: datetime, distance: timedelta) -> None:
    try:
        right = left + distance
    except OverflowError:
        return
    assert (timestamp_form(str(left)) < timestamp_form(str(right))) == (left < right)


@pytest.mark.parametrize(
    ("kind", "value", "form"),
    [
        (KeyKind.INTEGRAL, "007", "b7"),
        (KeyKind.INTEGRAL, "-0", "b0"),
        (KeyKind.INTEGRAL, "seven", NO_VALUE),
        (KeyKind.INTEGRAL, "9" * 100, NO_VALUE),
        (KeyKind.INTEGRAL, "__HIVE_DEFAULT_PARTITION__", NO_VALUE),
        (KeyKind.DATE, "2024-1-5", "2024-01-05"),
        (KeyKind.DATE, "2024-01-05 10:00:00", "2024-01-05"),
        (KeyKind.DATE, "2024-02-30", NO_VALUE),
        (KeyKind.TIMESTAMP, "2024-01-05", "2024-01-05 00:00:00"),
        (KeyKind.TIMESTAMP, "2024-01-05 1:02:03.450", "2024-01-05 01:02:03.45"),
        (KeyKind.TIMESTAMP, "2024-01-05 25:00:00", NO_VALUE),
        (KeyKind.TEXT, "", "__HIVE_DEFAULT_PARTITION__"),
        (KeyKind.TEXT, "Ä b", "Ä b"),
    ],
)
def test_values_have_the_expected_search_form(kind: KeyKind, value: str, form: str) -> None:
    assert search_form(kind, value) == form


@pytest.mark.parametrize(
    ("type_text", "kind"),
    [
        ("STRING", KeyKind.TEXT),
        ("varchar(10)", KeyKind.TEXT),
        ("bigint", KeyKind.INTEGRAL),
        ("timestamp", KeyKind.TIMESTAMP),
        ("decimal(10,2)", KeyKind.OTHER),
        (None, KeyKind.TEXT),
    ],
)
def test_types_have_the_expected_kind(type_text: str | None, kind: KeyKind) -> None:
    assert kind_of_type(type_text) is kind
