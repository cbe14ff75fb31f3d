"""Terminals: threads that execute transactions one after the other, each with its own connection and seed.

With a rate they start transactions at regular times, independent of the duration of one, so that runs are comparable; a
late transaction starts at once. The rate replaces keying and think times (clause 5.2.5).
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
    """Work of a terminal: transactions by kind, orders rolled back, retries, and seconds of new orders."""

    by_kind: Counter[str] = field(default_factory=Counter)
    rolled_back: int = 0
    tried_again: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def transactions(self) -> int:
        """Number of executed transactions, including those rolled back."""
        return self.by_kind.total()

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.by_kind + other.by_kind,
            self.rolled_back + other.rolled_back,
            self.tried_again + other.tried_again,
            self.seconds + other.seconds,
        )


class TerminalPool:
    """Terminals that execute transactions from `start` until `stop`, or until each has executed its number."""

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
        """Prepare the terminals. `rate` is of all terminals in a second, None for no limit; `transactions` is the
        number for each.
        """
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
        """Start the threads of the terminals."""
        for thread in self._threads:
            thread.start()

    def wait(self) -> Tally:
        """Wait until each terminal has executed its transactions. Raises the error of a failed terminal."""
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        return self.tally()

    def stop(self) -> Tally:
        """Stop after the current transactions. Raises the error of a failed terminal, and TimeoutError."""
        self._stopped.set()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            raise TimeoutError(f"A terminal has not ended in {STOP_SECONDS_MAX:.0f} s.")
        return self.wait()

    def tally(self) -> Tally:
        """Return the work of all terminals so far. Raises the error of a failed terminal."""
        if self._failures:
            raise self._failures[0]
        return sum(self._tallies, Tally())

    def _run(self, number: int) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                # Statements repeat: each is prepared at its first use.
                connection.prepare_threshold = 0
                self._work(connection, number)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that reads the tally
            self._failures.append(error)

    def _work(self, connection: Any, number: int) -> None:
        tally, between = self._tallies[number], self._seconds_between
        inputs = itertools.islice(TerminalInputs(self._size, number, seed=self._seed).inputs(), self._transactions)
        # Terminals start one after the other, at the times of their first transactions.
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
