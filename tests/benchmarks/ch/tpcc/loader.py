"""Initial rows of all tables: those of TPC-C by clause 4.3.3.1, and those of CH-benchmark.

Columns are generated as arrays and written to PostgreSQL by COPY, table by table; those of a warehouse are written
together. The same size, seed and time give the same rows.

Nations are numbered by the letter or digit at the beginning of a state, by which the queries find the nation of a
customer. Suppliers are as in TPC-H, with a complaint ("bad") in the comment of five of ten thousand.
"""

import io
from collections.abc import Iterator
from datetime import datetime

import numpy as np
import psycopg
import pyarrow as pa
from pyarrow import csv

from tests.benchmarks.ch.tpcc.nations import NATIONS, REGIONS
from tests.benchmarks.ch.tpcc.schema import DISTRICTS, SUPPLIERS, DatabaseSize, add_keys, create_tables
from tests.benchmarks.ch.tpcc.values import (
    C_LAST_LOADED,
    Column,
    Random,
    digits,
    last_names,
    money,
    non_uniform,
    same,
    texts,
    zip_codes,
)

COMPLAINTS = 5
"""Number of suppliers with a complaint."""


def load(url: str, size: DatabaseSize, *, seed: int, now: datetime) -> int:
    """Create the tables in an empty database and fill them, in one transaction; return the number of rows."""
    rows = 0
    with psycopg.connect(url) as connection:
        create_tables(connection)
        for name, table in all_rows(size, np.random.default_rng(seed), now):
            _copy(connection, name, table)
            rows += table.num_rows
        add_keys(connection)
        # Loaded rows have the first numbers.
        connection.execute("SELECT setval(pg_get_serial_sequence('history', 'h_id'), (SELECT max(h_id) FROM history))")
    return rows


def all_rows(size: DatabaseSize, random: Random, now: datetime) -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables by name; those of a warehouse come once for each warehouse."""
    yield "region", _regions(random)
    yield "nation", _nations(random)
    yield "supplier", _suppliers(random)
    yield "item", _items(random, size)
    for warehouse in range(1, size.warehouses + 1):
        yield "warehouse", _warehouse(random, size, warehouse)
        yield "stock", _stock(random, size, warehouse)
        yield "district", _districts(random, size, warehouse)
        yield "customer", _customers(random, size, warehouse, now)
        yield "history", _history(random, size, warehouse, now)
        yield from _orders(random, size, warehouse, now)


def _copy(connection: "psycopg.Connection[tuple[object, ...]]", name: str, table: pa.Table) -> None:
    columns = ", ".join(table.column_names)
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} ({columns}) FROM STDIN (FORMAT csv)".encode()) as to:
        for batch in table.to_batches(max_chunksize=50_000):
            text = io.BytesIO()
            csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
            to.write(text.getvalue())


def _regions(random: Random) -> pa.Table:
    return pa.table(
        {
            "r_regionkey": list(REGIONS),
            "r_name": list(REGIONS.values()),
            "r_comment": texts(random, len(REGIONS), 60, 152),
        }
    )


def _nations(random: Random) -> pa.Table:
    return pa.table(
        {
            "n_nationkey": [ord(n.letter) for n in NATIONS],
            "n_name": [n.name for n in NATIONS],
            "n_regionkey": [n.region for n in NATIONS],
            "n_comment": texts(random, len(NATIONS), 60, 152),
        }
    )


def _suppliers(random: Random) -> pa.Table:
    keys = np.arange(SUPPLIERS)
    comments = texts(random, SUPPLIERS, 51, 95).to_pylist()
    for number in random.choice(SUPPLIERS, COMPLAINTS, replace=False).tolist():
        comments[number] = f"{comments[number][:40]} bad {comments[number][40:]}"
    nations = np.array([ord(n.letter) for n in NATIONS])
    return pa.table(
        {
            "su_suppkey": keys,
            "su_name": [f"Supplier#{key:09}" for key in keys.tolist()],
            "su_address": texts(random, SUPPLIERS, 10, 40),
            "su_nationkey": random.choice(nations, SUPPLIERS),
            "su_phone": digits(random, SUPPLIERS, 15),
            "su_acctbal": money(random.integers(-99_999, 1_000_000, SUPPLIERS)),
            "su_comment": comments,
        }
    )


def _items(random: Random, size: DatabaseSize) -> pa.Table:
    count = size.items
    return pa.table(
        {
            "i_id": np.arange(1, count + 1),
            "i_im_id": random.integers(1, 10_001, count),
            "i_name": texts(random, count, 14, 24),
            "i_price": money(random.integers(100, 10_001, count), 5),
            "i_data": texts(random, count, 26, 50, original=0.1),
        }
    )


def _address(random: Random, of: str, count: int) -> dict[str, Column]:
    return {
        f"{of}_street_1": texts(random, count, 10, 20),
        f"{of}_street_2": texts(random, count, 10, 20),
        f"{of}_city": texts(random, count, 10, 20),
        f"{of}_state": texts(random, count, 2),
        f"{of}_zip": zip_codes(random, count),
    }


def _warehouse(random: Random, size: DatabaseSize, warehouse: int) -> pa.Table:
    return pa.table(
        {
            "w_id": same(warehouse, 1),
            "w_name": texts(random, 1, 6, 10),
            **_address(random, "w", 1),
            "w_tax": money(random.integers(0, 2_001, 1), 4, 4),
            # Payments of the customers, 10.00 each: 300,000.00 for 30,000 customers.
            "w_ytd": money(np.array([1_000 * DISTRICTS * size.customers])),
        }
    )


def _stock(random: Random, size: DatabaseSize, warehouse: int) -> pa.Table:
    count = size.items
    return pa.table(
        {
            "s_i_id": np.arange(1, count + 1),
            "s_w_id": same(warehouse, count),
            "s_quantity": random.integers(10, 101, count),
            **{f"s_dist_{district:02}": texts(random, count, 24) for district in range(1, DISTRICTS + 1)},
            "s_ytd": same(0, count),
            "s_order_cnt": same(0, count),
            "s_remote_cnt": same(0, count),
            "s_data": texts(random, count, 26, 50, original=0.1),
        }
    )


def _districts(random: Random, size: DatabaseSize, warehouse: int) -> pa.Table:
    return pa.table(
        {
            "d_id": np.arange(1, DISTRICTS + 1),
            "d_w_id": same(warehouse, DISTRICTS),
            "d_name": texts(random, DISTRICTS, 6, 10),
            **_address(random, "d", DISTRICTS),
            "d_tax": money(random.integers(0, 2_001, DISTRICTS), 4, 4),
            "d_ytd": money(np.full(DISTRICTS, 1_000 * size.customers)),
            "d_next_o_id": same(size.customers + 1, DISTRICTS),
        }
    )


def _customers(random: Random, size: DatabaseSize, warehouse: int, now: datetime) -> pa.Table:
    count = DISTRICTS * size.customers
    numbers = np.tile(np.arange(1, size.customers + 1), DISTRICTS)
    others = non_uniform(random, 255, 0, size.names - 1, C_LAST_LOADED, count)
    return pa.table(
        {
            "c_id": numbers,
            "c_d_id": _by_district(size),
            "c_w_id": same(warehouse, count),
            "c_first": texts(random, count, 8, 16),
            "c_middle": same("OE", count),
            # The first customers of a district have distinct last names, so that every name occurs.
            "c_last": last_names(np.where(numbers <= size.names, numbers - 1, others)),
            **_address(random, "c", count),
            "c_phone": digits(random, count, 16),
            "c_since": same(now, count),
            "c_credit": pa.array(np.where(random.random(count) < 0.1, "BC", "GC")),
            "c_credit_lim": _same_money(5_000_000, count),
            "c_discount": money(random.integers(0, 5_001, count), 4, 4),
            "c_balance": _same_money(-1_000, count),
            "c_ytd_payment": _same_money(1_000, count),
            "c_payment_cnt": same(1, count),
            "c_delivery_cnt": same(0, count),
            "c_data": texts(random, count, 300, 500),
        }
    )


def _history(random: Random, size: DatabaseSize, warehouse: int, now: datetime) -> pa.Table:
    count = DISTRICTS * size.customers
    districts = _by_district(size)
    return pa.table(
        {
            "h_id": np.arange(1, count + 1) + (warehouse - 1) * count,
            "h_c_id": np.tile(np.arange(1, size.customers + 1), DISTRICTS),
            "h_c_d_id": districts,
            "h_c_w_id": same(warehouse, count),
            "h_d_id": districts,
            "h_w_id": same(warehouse, count),
            "h_date": same(now, count),
            "h_amount": money(np.full(count, 1_000), 6),
            "h_data": texts(random, count, 12, 24),
        }
    )


def _orders(random: Random, size: DatabaseSize, warehouse: int, now: datetime) -> Iterator[tuple[str, pa.Table]]:
    """Yield the orders: each customer has one, in random order; the last ones of a district are new."""
    count = DISTRICTS * size.customers
    numbers, districts = np.tile(np.arange(1, size.customers + 1), DISTRICTS), _by_district(size)
    is_new = numbers > size.customers - size.undelivered
    lines = random.integers(5, 16, count)
    yield (
        "orders",
        pa.table(
            {
                "o_id": numbers,
                "o_d_id": districts,
                "o_w_id": same(warehouse, count),
                "o_c_id": np.concatenate([random.permutation(size.customers) + 1 for _ in range(DISTRICTS)]),
                "o_entry_d": same(now, count),
                "o_carrier_id": pa.array(random.integers(1, 11, count), mask=is_new),
                "o_ol_cnt": lines,
                "o_all_local": same(1, count),
            }
        ),
    )
    yield (
        "new_order",
        pa.table(
            {
                "no_o_id": numbers[is_new],
                "no_d_id": districts[is_new],
                "no_w_id": same(warehouse, int(is_new.sum())),
            }
        ),
    )
    total = int(lines.sum())
    of_new = np.repeat(is_new, lines)
    times = np.full(total, np.datetime64(now, "us"))
    yield (
        "order_line",
        pa.table(
            {
                "ol_o_id": np.repeat(numbers, lines),
                "ol_d_id": np.repeat(districts, lines),
                "ol_w_id": same(warehouse, total),
                "ol_number": np.arange(total) - np.repeat(np.cumsum(lines) - lines, lines) + 1,
                "ol_i_id": random.integers(1, size.items + 1, total),
                "ol_supply_w_id": same(warehouse, total),
                "ol_delivery_d": pa.array(times, mask=of_new),
                "ol_quantity": same(5, total),
                "ol_amount": money(np.where(of_new, random.integers(1, 1_000_000, total), 0), 6),
                "ol_dist_info": texts(random, total, 24),
            }
        ),
    )


def _by_district(size: DatabaseSize) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return the district of each customer, or order, of a warehouse."""
    return np.repeat(np.arange(1, DISTRICTS + 1), size.customers)


def _same_money(cents: int, count: int) -> Column:
    """Return one amount for all rows."""
    return money(np.full(count, cents))
