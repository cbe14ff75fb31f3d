"""Inputs of a terminal: the values of the five transactions, drawn as in clauses 2.4.1 to 2.8.1.

One generator draws all inputs of a terminal, so that its seed alone determines them, independent of the database.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from tests.benchmarks.ch.tpcc.schema import DISTRICTS, DatabaseSize
from tests.benchmarks.ch.tpcc.values import C_CUSTOMER, C_ITEM, C_LAST_RUN, last_name

MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}
"""Share of each transaction in a hundred (clause 5.2.3 sets these minima for all but new orders)."""
UNUSED_ITEM = -1
"""Item of an order that is rolled back (clause 2.4.1.5)."""


@dataclass(frozen=True, slots=True)
class OrderLine:
    """Line of an order: the item, the warehouse that supplies it, and the quantity."""

    item: int
    supplier: int
    quantity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOrder:
    """Clause 2.4.1: an order of a customer; it is rolled back if its last item does not exist."""

    warehouse: int
    district: int
    customer: int
    lines: tuple[OrderLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """Clause 2.5.1: the payment of a customer, given by number or by last name, possibly of another warehouse."""

    warehouse: int
    district: int
    customer_warehouse: int
    customer_district: int
    customer: int | str
    cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStatus:
    """Clause 2.6.1: a query for the last order of a customer."""

    warehouse: int
    district: int
    customer: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Clause 2.7.1: delivery of the oldest new order of each district."""

    warehouse: int
    carrier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StockLevel:
    """Clause 2.8.1: the number of items of the district's last orders whose stock is below a threshold."""

    warehouse: int
    district: int
    threshold: int


Input: TypeAlias = NewOrder | Payment | OrderStatus | Delivery | StockLevel


class TerminalInputs:
    """Draws the transactions of a terminal, which belongs to a warehouse and to one of its districts."""

    def __init__(self, size: DatabaseSize, number: int, *, seed: int) -> None:
        """Create the generator. `number` counts from 0; terminals are assigned to the warehouses in turn."""
        self._size = size
        self._random = Random(f"{seed} {number}")
        self._warehouse = number % size.warehouses + 1
        self._district = number // size.warehouses % DISTRICTS + 1

    def inputs(self) -> Iterator[Input]:
        """Yield transactions without end: decks of a hundred, each shuffled (clause 5.2.4.2)."""
        while True:
            deck = [kind for kind, count in MIX.items() for _ in range(count)]
            self._random.shuffle(deck)
            for kind in deck:
                yield self._input(kind)

    def _input(self, kind: str) -> Input:
        random = self._random
        match kind:
            case "new_order":
                return self._new_order()
            case "payment":
                return self._payment()
            case "order_status":
                return OrderStatus(
                    warehouse=self._warehouse, district=random.randint(1, DISTRICTS), customer=self._someone()
                )
            case "delivery":
                return Delivery(warehouse=self._warehouse, carrier=random.randint(1, 10))
            case _:
                return StockLevel(warehouse=self._warehouse, district=self._district, threshold=random.randint(10, 20))

    def _new_order(self) -> NewOrder:
        random, size = self._random, self._size
        district, customer = random.randint(1, DISTRICTS), self._number_of_customer()
        count = random.randint(5, 15)
        is_rolled_back = random.randint(1, 100) == 1
        lines = [
            OrderLine(
                item=self._non_uniform(8_191, 1, size.items, C_ITEM),
                supplier=self._other_warehouse() if random.randint(1, 100) == 1 else self._warehouse,
                quantity=random.randint(1, 10),
            )
            for _ in range(count)
        ]
        if is_rolled_back:
            lines[-1] = OrderLine(UNUSED_ITEM, self._warehouse, lines[-1].quantity)
        return NewOrder(warehouse=self._warehouse, district=district, customer=customer, lines=tuple(lines))

    def _payment(self) -> Payment:
        random = self._random
        district = random.randint(1, DISTRICTS)
        is_local = random.randint(1, 100) <= 85
        other = self._other_warehouse(), random.randint(1, DISTRICTS)
        home = self._warehouse, district
        warehouse, of_district = home if is_local or self._size.warehouses == 1 else other
        return Payment(
            warehouse=self._warehouse,
            district=district,
            customer_warehouse=warehouse,
            customer_district=of_district,
            customer=self._someone(),
            cents=random.randint(100, 500_000),
        )

    def _someone(self) -> int | str:
        """Return a customer; six of ten are given by last name."""
        if self._random.randint(1, 100) <= 60:
            return last_name(self._non_uniform(255, 0, self._size.names - 1, C_LAST_RUN))
        return self._number_of_customer()

    def _number_of_customer(self) -> int:
        return self._non_uniform(1_023, 1, self._size.customers, C_CUSTOMER)

    def _other_warehouse(self) -> int:
        """Return any warehouse but the terminal's, if there is another."""
        if self._size.warehouses == 1:
            return self._warehouse
        other = self._random.randint(1, self._size.warehouses - 1)
        return other + (other >= self._warehouse)

    def _non_uniform(self, most_bits: int, low: int, high: int, constant: int) -> int:
        either = self._random.randint(0, most_bits) | self._random.randint(low, high)
        return (either + constant) % (high - low + 1) + low
