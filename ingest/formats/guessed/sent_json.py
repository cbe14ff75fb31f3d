"""The values of rows in messages of JSON, which are parsed once and only where one of their values is asked for."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from interbed.ingest.flow.sent_rows import SentRows
from interbed.ingest.formats.arrays import Array, Indices, Mask, taken
from interbed.ingest.formats.guessed.json_objects import parsed_object
from interbed.storage.base.row.kind import RowKind

Pick = Callable[[Mapping[str, Any], str, bool, int], Any]
"""The value of a column in a message, in the row before the change or in the other one; at last the number of the text.
"""


class SentJson:
    """See SentValues; `owner` has the number of the text of each row, `kinds` a RowKind."""

    def __init__(
        self, texts: Array, owner: Indices, kinds: npt.NDArray[np.int8], pick: Pick, rewritten: Mask | None
    ) -> None:
        self._texts = texts
        self._owner = owner
        self._is_before = np.isin(kinds, [np.int8(RowKind.UPDATE_BEFORE), np.int8(RowKind.DELETE)])
        self._pick = pick
        self._rewritten = rewritten
        self._parsed: dict[int, Mapping[str, Any]] = {}

    def value(self, row: int, name: str) -> Any:
        """See SentValues."""
        number = int(self._owner[row])
        if number not in self._parsed:
            self._parsed[number] = parsed_object(self._texts[number].as_py())
        return self._pick(self._parsed[number], name, bool(self._is_before[row]), number)

    def texts(self, rows: Indices) -> Array:
        """See SentValues."""
        return taken(self._texts, self._owner[rows])

    def rewritten(self, rows: Indices) -> Mask:
        """See SentValues."""
        return np.zeros(len(rows), bool) if self._rewritten is None else self._rewritten[self._owner[rows]]


def sent_rows(
    texts: Array, owner: Indices, kinds: npt.NDArray[np.int8], pick: Pick, rewritten: Mask | None = None
) -> SentRows:
    """All rows of some messages; `rewritten` has an entry for each text."""
    values = SentJson(texts, owner, kinds, pick, rewritten)
    return SentRows(values=values, rows=np.arange(len(owner)))


def at_texts(chosen: Mask, index: Indices, count: int) -> Mask:
    """What is true of some texts, with an entry for each of all texts."""
    found = np.zeros(count, bool)
    found[index[chosen]] = True
    return found
