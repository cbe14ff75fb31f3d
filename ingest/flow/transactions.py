"""Transactions of a source, as its messages tell of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from interbed.ingest.flow.messages import Messages


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """A transaction that is over: the offset of the message that says so, and its events by collection, which is a
    table as its source names it.
    """

    id: str
    offset: int
    events: Mapping[str, int]


class TransactionReader(Protocol):
    """What the messages of a format say about transactions. Not for use by several threads."""

    def ids(self, messages: Messages) -> "pa.Array[Any]":
        """The transaction (string) of each message; null where it belongs to none, as the rows of a first snapshot.

        Raises InvalidInputError for changes without a transaction.
        """
        ...

    def ended(self, messages: Messages) -> Sequence[EndedTransaction]:
        """The ends among messages of the topic of transactions, in their order; raises InvalidInputError for others."""
        ...
