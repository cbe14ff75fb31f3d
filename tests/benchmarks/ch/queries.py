"""The 22 queries of CH-benchmark, each in one text for Spark and for PostgreSQL: the files of the folder sql.

The queries are those of CH-benchmark (Cole et al., "The mixed workload CH-benCHmark", DBTest 2011), which adapts
TPC-H's queries to TPC-C's tables; the texts are rewritten. Three things differ from other versions: joins are explicit;
the view of query 15 is a WITH; and dates that bounded the future in 2011 are moved to 2100, so that rows of today are
within them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkQuery:
    """Query by its number. `order` are the columns of its ORDER BY; the order of ties is free."""

    number: int
    text: str
    order: tuple[str, ...]


def _query(path: Path) -> BenchmarkQuery:
    text = path.read_text(encoding="utf-8").strip()
    _, found, last = text.rpartition("ORDER BY ")
    # A query without ORDER BY returns one row; a bracket would follow the ORDER BY of an inner query.
    names = re.findall(r"(\w+)(?: DESC)?(?:, |$)", last) if found else []
    return BenchmarkQuery(number=int(path.stem), text=text, order=tuple(names))


QUERIES = tuple(_query(path) for path in sorted(_FOLDER.glob("*.sql")))

NEWEST_ORDER = "SELECT max(o_entry_d) FROM orders"
"""Query for the lag of the tables behind the database."""
