"""TPC-C on PostgreSQL: the rows of the loader, and transactions that preserve the consistency conditions."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
import psycopg
import pytest

from tests.benchmarks.ch.tpcc.consistency import CONDITIONS, violations
from tests.benchmarks.ch.tpcc.inputs import UNUSED_ITEM, NewOrder, Payment, TerminalInputs
from tests.benchmarks.ch.tpcc.loader import all_rows, load
from tests.benchmarks.ch.tpcc.nations import NATIONS
from tests.benchmarks.ch.tpcc.schema import CHANGING, KEYS, DatabaseSize
from tests.benchmarks.ch.tpcc.terminals import TerminalPool
from tests.benchmarks.ch.tpcc.values import last_name, non_uniform
from tests.support.servers.postgres import postgres_server

SIZE = DatabaseSize(warehouses=2, scale=0.01)
NOW = datetime(2026, 1, 31, 10)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres_server() as found:
        load(found, SIZE, seed=1, now=NOW)
        yield found


@pytest.fixture
def connection(url: str) -> Iterator["psycopg.Connection[tuple[Any, ...]]"]:
    with psycopg.connect(url, autocommit=True) as found:
        yield found


def test_a_full_warehouse_has_the_rows_of_the_specification() -> None:
    size = DatabaseSize()
    assert (size.items, size.customers, size.undelivered, size.names) == (100_000, 3_000, 900, 1_000)


def test_rows_have_the_counts_of_the_size_and_are_reproducible() -> None:
    def counted() -> dict[str, int]:
        found: dict[str, int] = {}
        for name, table in all_rows(SIZE, np.random.default_rng(1), NOW):
            found[name] = found.get(name, 0) + table.num_rows
        return found

    rows = counted()
    lines = rows.pop("order_line")
    assert 5 * 600 <= lines <= 15 * 600
    assert rows == {
        "region": 5,
        "nation": 62,
        "supplier": 10_000,
        "item": 1_000,
        "warehouse": 2,
        "stock": 2_000,
        "district": 20,
        "customer": 600,
        "history": 600,
        "orders": 600,
        "new_order": 180,
    }
    assert counted()["order_line"] == lines
    assert {*rows, "order_line"} == {*KEYS} >= {*CHANGING}


def test_every_state_and_stock_has_a_nation(connection: Any) -> None:
    assert len({nation.letter for nation in NATIONS}) == 62
    query = "SELECT count(*) FROM customer JOIN nation ON n_nationkey = ascii(substr(c_state, 1, 1))"
    assert connection.execute(query).fetchone() == (600,)
    query = "SELECT count(*) FROM stock JOIN supplier ON su_suppkey = mod(s_w_id * s_i_id, 10000)"
    assert connection.execute(query).fetchone() == (2_000,)


def test_last_names_consist_of_syllables() -> None:
    assert last_name(371) == "PRICALLYOUGHT"
    assert last_name(40) == "BARPRESBAR"


def test_non_uniform_numbers_stay_within_their_bounds() -> None:
    drawn = non_uniform(np.random.default_rng(1), 1_023, 1, 3_000, 259, 100_000)
    assert (drawn.min(), drawn.max()) == (1, 3_000)
    counts = np.bincount(drawn)
    assert counts.max() > 4 * counts.mean()


def test_a_terminal_draws_reproducible_transactions_in_the_mix() -> None:
    drawn = list(islice(TerminalInputs(SIZE, 1, seed=7).inputs(), 2_000))
    assert drawn == list(islice(TerminalInputs(SIZE, 1, seed=7).inputs(), 2_000))
    assert drawn != list(islice(TerminalInputs(SIZE, 2, seed=7).inputs(), 2_000))
    kinds = [type(each).__name__ for each in drawn]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "NewOrder": 900,
        "Payment": 860,
        "OrderStatus": 80,
        "Delivery": 80,
        "StockLevel": 80,
    }
    orders = [each for each in drawn if isinstance(each, NewOrder)]
    assert 1 <= sum(order.lines[-1].item == UNUSED_ITEM for order in orders) <= 30
    payments = [each for each in drawn if isinstance(each, Payment)]
    assert 0.1 < np.mean([payment.customer_warehouse != payment.warehouse for payment in payments]) < 0.2
    assert 0.5 < np.mean([isinstance(payment.customer, str) for payment in payments]) < 0.7


def test_transactions_of_several_terminals_preserve_the_conditions(url: str, connection: Any) -> None:
    assert violations(connection) == {}
    terminals = TerminalPool(url, SIZE, count=4, seed=1, transactions=200)
    terminals.start()
    tally = terminals.wait()
    assert tally.transactions == 800
    assert 0 < tally.rolled_back < 20
    assert violations(connection) == {}
    # Each of 20 districts had 30 orders before.
    [orders] = connection.execute("SELECT count(*) FROM orders").fetchone()
    assert orders == 600 + tally.by_kind["NewOrder"] - tally.rolled_back
    [paid] = connection.execute("SELECT count(*) FROM history").fetchone()
    assert paid == 600 + tally.by_kind["Payment"]


def test_a_violated_condition_is_found(connection: Any) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("UPDATE warehouse SET w_ytd = w_ytd + 1")
        connection.execute("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 1")
        connection.execute("DELETE FROM new_order WHERE no_o_id = (SELECT max(no_o_id) - 1 FROM new_order)")
        connection.execute("DELETE FROM order_line WHERE ol_o_id = 3 AND ol_number = 1")
        connection.execute("DELETE FROM history WHERE h_id = 1")
        assert [condition[0] for condition in violations(connection)] == [condition[0] for condition in CONDITIONS]
