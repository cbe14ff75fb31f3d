"""The 22 queries of CH-benchmark, each in one text for Spark and for PostgreSQL: the files of the folder sql.

What they ask for is CH-benchmark's (Cole et al., "The mixed workload CH-benCHmark", DBTest 2011), which put TPC-H's
questions to TPC-C's tables; the texts are written anew. Three things differ from other versions: joins are written as
such; the view of query 15 is a WITH; and dates that bounded what was the future in 2011 are moved to 2100, so that rows
of today are within them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkQuery:
    """A query by its number. `order` are the columns of the answer that it is ordered by; ties are in any order."""

    number: int
    text: str
    order: tuple[str, ...]


def _query(path: Path) -> BenchmarkQuery:
    text = path.read_text(encoding="utf-8").strip()
    _, found, last = text.rpartition("ORDER BY ")
    # A query without an order has one row; an ORDER BY of an inner query would be followed by a bracket.
    names = re.findall(r"(\w+)(?: DESC)?(?:, |$)", last) if found else []
    return BenchmarkQuery(number=int(path.stem), text=text, order=tuple(names))


QUERIES = tuple(_query(path) for path in sorted(_FOLDER.glob("*.sql")))

NEWEST_ORDER = "SELECT max(o_entry_d) FROM orders"
"""Tells how far behind the database the tables are."""
