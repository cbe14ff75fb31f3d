"""The five transactions of TPC-C (clauses 2.4.2 to 2.8.2), by psycopg.

Writing transactions run under READ COMMITTED and first lock the row that all others of their kind lock first. They
therefore wait for each other and are serial. Transactions that only read use one snapshot. Lines of an order are
written in the order of their items, so that orders do not deadlock. The remaining deadlocks (a payment, a delivery) are
retried.
"""

from typing import Any, TypeAlias

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure

from tests.benchmarks.ch.tpcc.inputs import UNUSED_ITEM, Delivery, Input, NewOrder, OrderStatus, Payment, StockLevel
from tests.benchmarks.ch.tpcc.schema import DISTRICTS

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

TRIES = 10


class _RolledBackError(Exception):
    """The order names an item that does not exist, and is rolled back as a whole."""


def carry_out(connection: Connection, wanted: Input) -> tuple[bool, int]:
    """Execute one transaction; return whether it was committed, and the number of retries."""
    for attempt in range(TRIES):
        try:
            with connection.transaction():
                _work(connection, wanted)
            return True, attempt
        except _RolledBackError:
            return False, attempt
        except (DeadlockDetected, SerializationFailure):
            if attempt == TRIES - 1:
                raise
    raise AssertionError


def _work(connection: Connection, wanted: Input) -> None:
    match wanted:
        case NewOrder():
            _new_order(connection, wanted)
        case Payment():
            _payment(connection, wanted)
        case Delivery():
            _deliver(connection, wanted)
        case OrderStatus():
            _order_status(connection, wanted)
        case StockLevel():
            _stock_level(connection, wanted)


def _one(connection: Connection, statement: Any, values: tuple[object, ...]) -> tuple[Any, ...]:
    row = connection.execute(statement, values).fetchone()
    assert row is not None, statement
    return row


def _new_order(connection: Connection, order: NewOrder) -> None:
    """Execute a new order (clause 2.4.2)."""
    place = order.warehouse, order.district
    [number, entered] = _one(connection, _NEXT_ORDER, place)
    _one(connection, _BUYER, (*place, order.customer))
    prices: dict[int, Any] = dict(connection.execute(_PRICES, ([line.item for line in order.lines],)).fetchall())
    if order.lines[-1].item == UNUSED_ITEM:
        # The rollback includes all writes so far; the lines before the last one are those of any order (2.4.2.3).
        _take(connection, order, order.lines[:-1])
        raise _RolledBackError
    is_local = all(line.supplier == order.warehouse for line in order.lines)
    connection.execute(_ORDER, (number, *place, order.customer, entered, len(order.lines), int(is_local)))
    connection.execute(_NEW_ORDER, (number, *place))
    taken = _take(connection, order, order.lines)
    rows = []
    for number_of_line, (line, info) in enumerate(zip(order.lines, taken, strict=True), 1):
        amount = line.quantity * prices[line.item]
        rows.append((number, *place, number_of_line, line.item, line.supplier, line.quantity, amount, info))
    with connection.cursor() as cursor:
        cursor.executemany(_LINE, rows)


def _take(connection: Connection, order: NewOrder, lines: Any) -> list[str]:
    """Take the items out of the stocks; return the district information of the stock of each line."""
    by_stock = sorted(range(len(lines)), key=lambda i: (lines[i].supplier, lines[i].item))
    statement = _TAKE[order.district - 1]
    values = [
        (line.quantity, line.quantity, line.quantity, int(line.supplier != order.warehouse), line.supplier, line.item)
        for line in (lines[i] for i in by_stock)
    ]
    found = [""] * len(lines)
    with connection.cursor() as cursor:
        if not values:
            return found
        cursor.executemany(statement, values, returning=True)
        for i in by_stock:
            row = cursor.fetchone()
            assert row is not None, lines[i]
            found[i] = row[0]
            cursor.nextset()
    return found


def _payment(connection: Connection, payment: Payment) -> None:
    """Execute a payment (clause 2.5.2)."""
    amount = payment.cents
    [warehouse_name] = _one(connection, _WAREHOUSE_PAID, (amount, payment.warehouse))
    [district_name] = _one(connection, _DISTRICT_PAID, (amount, payment.warehouse, payment.district))
    place = payment.customer_warehouse, payment.customer_district
    customer = _customer(connection, place, payment.customer)
    _, _, credit = _one(connection, _PAID, (amount, amount, *place, customer))
    if credit == "BC":
        note = f"{customer} {place[1]} {place[0]} {payment.district} {payment.warehouse} {amount / 100:.2f} "
        connection.execute(_NOTED, (note, *place, customer))
    data = f"{warehouse_name}    {district_name}"
    connection.execute(_HISTORY, (customer, place[1], place[0], payment.district, payment.warehouse, amount, data))


def _customer(connection: Connection, place: tuple[int, int], known_as: int | str) -> int:
    """Return the number of a customer; of those with a last name the middle one by first name (clause 2.5.2.2)."""
    if isinstance(known_as, int):
        return known_as
    found = connection.execute(_BY_NAME, (*place, known_as)).fetchall()
    number: int = found[(len(found) - 1) // 2][0]
    return number


def _order_status(connection: Connection, asked: OrderStatus) -> None:
    """Execute an order status query (clause 2.6.2)."""
    connection.execute(_SNAPSHOT)
    place = asked.warehouse, asked.district
    customer = _customer(connection, place, asked.customer)
    _one(connection, _BALANCE, (*place, customer))
    order = connection.execute(_LAST_ORDER, (*place, customer)).fetchone()
    if order is not None:
        connection.execute(_LINES, (*place, order[0])).fetchall()


def _deliver(connection: Connection, delivery: Delivery) -> None:
    """Deliver in all districts in one transaction (clause 2.7.2); deliveries of a warehouse wait for each other, as its
    queue.
    """
    connection.execute(_QUEUE, (delivery.warehouse,))
    for district in range(1, DISTRICTS + 1):
        place = delivery.warehouse, district
        oldest = connection.execute(_OLDEST, (*place, *place)).fetchone()
        if oldest is None:
            continue
        [customer] = _one(connection, _CARRIED, (delivery.carrier, *place, oldest[0]))
        amounts = connection.execute(_DELIVERED, (*place, oldest[0])).fetchall()
        connection.execute(_OWED, (sum(amount for [amount] in amounts), *place, customer))


def _stock_level(connection: Connection, asked: StockLevel) -> None:
    """Execute a stock level query (clause 2.8.2)."""
    connection.execute(_SNAPSHOT)
    place = asked.warehouse, asked.district
    [following] = _one(connection, _FOLLOWING, place)
    _one(connection, _LOW, (*place, following, following - 20, asked.warehouse, asked.threshold))


_SNAPSHOT = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_QUEUE = "SELECT pg_advisory_xact_lock(%s)"
_NEXT_ORDER = """
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = %s AND d_id = %s
    RETURNING d_next_o_id - 1, clock_timestamp()::timestamp
"""
_BUYER = """
    SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse ON w_id = c_w_id
    WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s
"""
_PRICES = "SELECT i_id, i_price FROM item WHERE i_id = ANY (%s)"
_ORDER = """
    INSERT INTO orders (o_id, o_w_id, o_d_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
"""
_NEW_ORDER = "INSERT INTO new_order (no_o_id, no_w_id, no_d_id) VALUES (%s, %s, %s)"
_TAKE = [
    # A stock that falls below ten is increased by 91 (clause 2.4.2.2).
    f"""
    UPDATE stock SET s_quantity = s_quantity - %s::int + CASE WHEN s_quantity - %s::int < 10 THEN 91 ELSE 0 END,
        s_ytd = s_ytd + %s, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + %s
    WHERE s_w_id = %s AND s_i_id = %s RETURNING s_dist_{district:02}
    """
    for district in range(1, DISTRICTS + 1)
]
_LINE = """
    INSERT INTO order_line (ol_o_id, ol_w_id, ol_d_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
        ol_dist_info)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_WAREHOUSE_PAID = "UPDATE warehouse SET w_ytd = w_ytd + %s / 100.00 WHERE w_id = %s RETURNING w_name"
_DISTRICT_PAID = "UPDATE district SET d_ytd = d_ytd + %s / 100.00 WHERE d_w_id = %s AND d_id = %s RETURNING d_name"
_BY_NAME = "SELECT c_id FROM customer WHERE c_w_id = %s AND c_d_id = %s AND c_last = %s ORDER BY c_first"
_PAID = """
    UPDATE customer SET c_balance = c_balance - %s / 100.00, c_ytd_payment = c_ytd_payment + %s / 100.00,
        c_payment_cnt = c_payment_cnt + 1
    WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s RETURNING c_balance, c_discount, c_credit
"""
_NOTED = "UPDATE customer SET c_data = left(%s || c_data, 500) WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s"
_HISTORY = """
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (%s, %s, %s, %s, %s, clock_timestamp(), %s / 100.00, %s)
"""
_BALANCE = """
    SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s
"""
_LAST_ORDER = """
    SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = %s AND o_d_id = %s AND o_c_id = %s
    ORDER BY o_id DESC LIMIT 1
"""
_LINES = """
    SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
    WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s
"""
_OLDEST = """
    DELETE FROM new_order WHERE no_w_id = %s AND no_d_id = %s
        AND no_o_id = (SELECT min(no_o_id) FROM new_order WHERE no_w_id = %s AND no_d_id = %s)
    RETURNING no_o_id
"""
_CARRIED = "UPDATE orders SET o_carrier_id = %s WHERE o_w_id = %s AND o_d_id = %s AND o_id = %s RETURNING o_c_id"
_DELIVERED = """
    UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s RETURNING ol_amount
"""
_OWED = """
    UPDATE customer SET c_balance = c_balance + %s, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s
"""
_FOLLOWING = "SELECT d_next_o_id FROM district WHERE d_w_id = %s AND d_id = %s"
_LOW = """
    SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_i_id = ol_i_id
    WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id < %s AND ol_o_id >= %s AND s_w_id = %s AND s_quantity < %s
"""
