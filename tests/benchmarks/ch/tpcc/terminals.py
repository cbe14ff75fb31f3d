"""Terminals: threads that carry out transactions one after the other, each with a connection and a seed of its own.

With a rate they begin transactions at even times, whatever the database takes for one, so that runs are comparable;
one that is late begins at once. There are no keying and think times (clause 5.2.5): the rate stands in their place.
"""

import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.benchmarks.ch.tpcc.inputs import NewOrder, TerminalInputs
from tests.benchmarks.ch.tpcc.schema import DatabaseSize
from tests.benchmarks.ch.tpcc.transactions import carry_out

STOP_SECONDS_MAX = 60.0


@dataclass(slots=True)
class Tally:
    """What a terminal has done: transactions by kind, orders rolled back, tries again, and seconds of new orders."""

    by_kind: Counter[str] = field(default_factory=Counter)
    rolled_back: int = 0
    tried_again: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def transactions(self) -> int:
        """All that were carried out, those rolled back among them."""
        return self.by_kind.total()

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.by_kind + other.by_kind,
            self.rolled_back + other.rolled_back,
            self.tried_again + other.tried_again,
            self.seconds + other.seconds,
        )


class TerminalPool:
    """Transactions that are carried out from `start` until `stop`, or until each terminal has done its part."""

    def __init__(
        self,
        url: str,
        size: DatabaseSize,
        *,
        count: int,
        seed: int,
        rate: float | None = None,
        transactions: int | None = None,
    ) -> None:
        """`rate` is of all terminals in a second, None for as fast as they can; `transactions` how many each does."""
        self._url = url
        self._size = size
        self._seed = seed
        self._seconds_between = None if rate is None else count / rate
        self._transactions = transactions
        self._stopped = threading.Event()
        self._tallies = [Tally() for _ in range(count)]
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(i,), name=f"terminal-{i}", daemon=True) for i in range(count)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def wait(self) -> Tally:
        """Until each has done its part; raises what ended one."""
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        return self.tally()

    def stop(self) -> Tally:
        """End after the transactions that are under way. Raises what ended a terminal before, and TimeoutError."""
        self._stopped.set()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            raise TimeoutError(f"A terminal has not ended in {STOP_SECONDS_MAX:.0f} s.")
        return self.wait()

    def tally(self) -> Tally:
        """What all have done so far; raises what ended one."""
        if self._failures:
            raise self._failures[0]
        return sum(self._tallies, Tally())

    def _run(self, number: int) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                # Statements come again and again: each is prepared when it comes first.
                connection.prepare_threshold = 0
                self._work(connection, number)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that asks for the tally
            self._failures.append(error)

    def _work(self, connection: Any, number: int) -> None:
        tally, between = self._tallies[number], self._seconds_between
        inputs = itertools.islice(TerminalInputs(self._size, number, seed=self._seed).inputs(), self._transactions)
        # Terminals begin one after the other, as their transactions come.
        due = time.monotonic() + (0.0 if between is None else between * number / len(self._threads))
        for wanted in inputs:
            if self._stopped.wait(max(0.0, due - time.monotonic()) if between is not None else 0.0):
                return
            due += between or 0.0
            began = time.perf_counter()
            is_committed, again = carry_out(connection, wanted)
            if isinstance(wanted, NewOrder):
                tally.seconds.append(time.perf_counter() - began)
            tally.by_kind[type(wanted).__name__] += 1
            tally.rolled_back += not is_committed
            tally.tried_again += again
