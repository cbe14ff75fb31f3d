"""Checks histories of appends to lists for a serial order, as Elle does for list-append histories.

A transaction appends values to the lists of some keys; each value is used once. A read of a list returns every append
that led to it, in order. The reads therefore determine the order of the transactions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise


@dataclass(frozen=True)
class AppendTransaction:
    """Transaction: the appended values by key, and whether its writer got a confirmation of the commit."""

    name: str
    values: Mapping[int, int]
    committed: bool = True


@dataclass(frozen=True)
class History:
    """All transactions, and reads of all lists; the last read is of the final state."""

    transactions: Sequence[AppendTransaction]
    reads: Sequence[Mapping[int, Sequence[int]]] = field(default_factory=list)


class AnomalyError(AssertionError):
    """The history has no serial order; the message names the anomaly."""


def serial_order(history: History) -> list[str]:
    """Return the committed transactions in an order that explains every read. Raises AnomalyError."""
    writers: dict[tuple[int, int], AppendTransaction] = {}
    for transaction in history.transactions:
        for place in transaction.values.items():
            if place in writers:
                raise AnomalyError(f"{place} was appended twice; values are to be unique")
            writers[place] = transaction
    final = history.reads[-1]
    _check_final(history, final, writers)
    for read in history.reads:
        for key, seen in read.items():
            if list(seen) != list(final.get(key, ()))[: len(seen)]:
                raise AnomalyError(f"incompatible order: list {key} was read as {list(seen)}, ends as {final.get(key)}")
    graph: dict[str, set[str]] = {t.name: set() for t in history.transactions if t.committed}
    for key, values in final.items():
        names = [writers[key, value].name for value in values]
        for before, after in pairwise(names):
            graph[after].add(before)
    for read in history.reads:
        _check_atomic(read, writers)
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AnomalyError(f"cycle: {' before '.join(error.args[1])}") from error


def _check_final(
    history: History, final: Mapping[int, Sequence[int]], writers: Mapping[tuple[int, int], AppendTransaction]
) -> None:
    for key, values in final.items():
        if len(set(values)) < len(values):
            raise AnomalyError(f"duplicate: list {key} is {list(values)}")
        for value in values:
            writer = writers.get((key, value))
            if writer is None or not writer.committed:
                raise AnomalyError(f"dirty read: {value} in list {key} was never committed")
    for transaction in history.transactions:
        for key, value in transaction.values.items() if transaction.committed else ():
            if value not in final.get(key, ()):
                raise AnomalyError(f"lost update: {transaction.name} appended {value} to list {key}, which lacks it")


def _check_atomic(read: Mapping[int, Sequence[int]], writers: Mapping[tuple[int, int], AppendTransaction]) -> None:
    """Check that a read of several lists sees all appends of a transaction or none."""
    seen = {(key, value) for key, values in read.items() for value in values}
    for place in seen:
        missing = [p for p in writers[place].values.items() if p not in seen and p[0] in read]
        if missing:
            raise AnomalyError(f"fractured read: {writers[place].name} is seen at {place} and not at {missing[0]}")
