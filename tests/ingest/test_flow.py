"""Positions in topics, and names of tables."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.ingest.flow.changes import SourceTable, source_to_json
from interbed.ingest.flow.messages import Positions, least_of
from interbed.ingest.tables.source_tables import TableNames
from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from tests.ingest.memory_source import messages_of

POSITIONS = st.dictionaries(
    st.sampled_from("ab"), st.dictionaries(st.integers(0, 2), st.integers(0, 9), max_size=3), max_size=2
).map(Positions)


@given(st.lists(POSITIONS, max_size=4))
def test_the_least_position_skips_no_message(given_positions: list[Positions]) -> None:
    least = least_of(given_positions)
    for positions in given_positions:
        for topic, partition, offset in least:
            known = positions.get(topic, partition)
            assert known is not None
            assert offset <= known


@given(POSITIONS, POSITIONS)
def test_the_later_of_two_positions_includes_both(one: Positions, other: Positions) -> None:
    both = one.beyond(other)
    assert both.has_reached(one)
    assert both.has_reached(other)
    for topic, partition, offset in both:
        assert offset in (one.get(topic, partition), other.get(topic, partition))
    assert one.beyond(None) == one


@given(POSITIONS)
def test_positions_survive_a_round_trip_through_json(positions: Positions) -> None:
    assert list(Positions.from_json(positions.to_json(), "x")) == sorted(positions)


def test_positions_keep_the_ids_of_their_topics() -> None:
    one, other = Positions({"t": {0: 3}}, {"t": "a"}), Positions({"t": {0: 5}, "u": {0: 1}}, {"t": "b", "u": "c"})
    some = messages_of([{}], topic="t", first=3)
    kept = [one.after(some), one.of_partitions([("t", 0)]), one.beyond(None)]
    assert [each.ids for each in kept] == [{"t": "a"}] * 3
    assert one.beyond(other).ids == {"t": "a", "u": "c"}
    assert least_of([one, Positions({"t": {0: 1}})]).ids == {"t": "a"}
    assert Positions.from_json(other.to_json(), "x", source_to_json(other.ids, ())).ids == other.ids
    assert source_to_json({}, ()) is None
    with pytest.raises(CorruptFileError, match="the note holds no positions"):
        Positions.from_json("{}", "the note", "[]")


def test_positions_advance_with_messages() -> None:
    some = messages_of([{}, {}, {}], topic="t", partition=1, first=5)
    positions = Positions({"t": {0: 3, 1: 6}, "u": {0: 1}})
    assert list(positions.new_in(some)) == [False, True, True]
    assert positions.after(some) == Positions({"t": {0: 3, 1: 8}, "u": {0: 1}})
    assert not positions.has_reached(Positions({"t": {1: 8}}))
    assert positions.after(some).has_reached(Positions({"t": {1: 8}}))
    assert positions.lag_behind(Positions({"t": {0: 5, 1: 6, 2: 1}, "u": {0: 0}})) == 3
    assert some.slice(1, 3).place(0) == "topic t, partition 1, offset 6"
    with pytest.raises(CorruptFileError, match="the note holds no positions"):
        Positions.from_json("[]", "the note")


def test_source_tables_map_to_table_names() -> None:
    orders = SourceTable("public", "orders")
    assert TableNames(table="shop.t").of(orders) == TableNames(table="shop.t").of(None) == "shop.t"
    names = TableNames(database="ods", prefix="p_", suffix="_s", including=r"orders|public\.i.*", excluding="items2")
    assert names.of(orders) == "ods.p_orders_s"
    assert names.of(SourceTable("public", "items")) == "ods.p_items_s"
    assert names.of(SourceTable("public", "items2")) is None
    assert names.of(SourceTable("other", "items")) is None
    with pytest.raises(InvalidInputError, match="do not say which table"):
        names.of(None)
    only = TableNames(database="ods", databases=frozenset({"public"}))
    assert (only.of(orders), only.of(SourceTable("other", "items"))) == ("ods.orders", None)
    assert only.one_each([orders, SourceTable("other", "orders")]) == {orders: "ods.orders"}
    with pytest.raises(
        InvalidInputError, match=r"other\.orders and public\.orders of the source would both go to 'ods\.orders'"
    ):
        TableNames(database="ods").one_each([SourceTable("other", "orders"), orders])
    wrongs: list[dict[str, Any]] = [{}, {"table": "a.b", "database": "a"}, {"database": "a", "including": "("}]
    for wrong in wrongs:
        with pytest.raises(InvalidInputError):
            TableNames(**wrong)
