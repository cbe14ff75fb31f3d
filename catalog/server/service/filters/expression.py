"""The filter language of partitions, `dt = "2024-01-01" and (n > 3 or (n) in (1, 2))`, and expressions that contain it.

Keys are compared with literals (or literals with keys); operators are =, !=, <>, <, <=, >, >=, LIKE, BETWEEN, IN (of
several keys, too: `(struct(a, b)) in (const struct(1, "x"))`) and their negations, joined by AND, OR, NOT and
parentheses. Literals are numbers, quoted text, and dates and timestamps, bare, quoted, or after DATE or TIMESTAMP. In
text a backslash is an ordinary character, except before the quote that encloses the text; clients do not escape. LIKE
knows `%`, `_` and, as older clients write it, `.*`; a backslash escapes `%` and `_`. An empty filter selects all.

The result is a tree of tree.py; the grammar is in grammar.py.

Some calls give an expression in bytes. MSCK sends a filter as UTF-8 text, in which values are escaped as in partitions'
names. Hive's own queries send their expression as Kryo writes it: kryo_expression.py reads the simple ones of Hive 4.
All other expressions are unknown, and so is their result.
"""

from collections.abc import Sequence

from interbed.catalog.server.service.errors import BadFilterError
from interbed.catalog.server.service.filters.kryo_expression import filter_of_expression
from interbed.catalog.server.service.filters.tree import EVERYTHING, PartitionFilter, comparisons_in, patterns_in
from interbed.catalog.server.service.model import MetastoreColumn

FILTER_CHARACTERS_MAX = 200_000
"""Longer filters are refused, since a million characters take up to 8 s to parse; Spark's lists of a thousand values
stay far below.
"""

COMPARISONS_MAX = 5_000
"""Comparisons in a filter. Those of one key with many values, by IN or by `or` or by `<>` and `and`, are one."""

PATTERNS_MAX = 100
"""LIKEs in a filter: no index supports them, so that each is tried on each partition."""

OPAQUE = (
    "The partitions are given by a serialized Java expression that only Hive can read: nothing was dropped. Name the "
    "partitions instead (drop_partition, or drop_partitions_req with names), or send the expression as the text of a "
    "filter, as Hive's MsckPartitionExpressionProxy reads it."
)


def parse_filter(
    text: str | None, keys: Sequence[MetastoreColumn], *, escaped_literals: bool = False
) -> PartitionFilter:
    """Parse a filter into its tree. In its texts characters may be escaped as in partitions' names. BadFilterError if
    it does not parse, names a column that is no key, or compares incompatible values.
    """
    if text is None or not text.strip():
        return EVERYTHING
    if len(text) > FILTER_CHARACTERS_MAX:
        raise BadFilterError(f"Error parsing partition filter; it has more than {FILTER_CHARACTERS_MAX} characters")
    if "\0" in text:
        raise BadFilterError("Error parsing partition filter; it has a NUL character, which no partition's value has")
    # Imported here, because a server starts without the parser.
    from interbed.catalog.server.service.filters.grammar import parse

    tree = parse(text, keys, escaped_literals=escaped_literals)
    try:
        comparisons, patterns = comparisons_in(tree), patterns_in(tree)
    except RecursionError as error:
        raise BadFilterError("Error parsing partition filter; it is nested too deeply") from error
    if comparisons > COMPARISONS_MAX:
        raise BadFilterError(f"Error parsing partition filter; it has more than {COMPARISONS_MAX} comparisons")
    if patterns > PATTERNS_MAX:
        raise BadFilterError(f"Error parsing partition filter; it has {patterns} LIKEs: {PATTERNS_MAX} are allowed")
    return tree


def parse_expression(expression: bytes | None, keys: Sequence[MetastoreColumn]) -> PartitionFilter | None:
    """Return the filter of an expression; None if it is neither text nor a readable condition of Hive 4."""
    try:
        condition = filter_of_expression(expression or b"")
        if condition is not None:
            return parse_filter(condition, keys)
        text = (expression or b"").decode()
        readable = text.strip() and all(char.isprintable() or char.isspace() for char in text)
        return parse_filter(text, keys, escaped_literals=True) if readable else None
    except (UnicodeDecodeError, BadFilterError):
        return None


def required_filter(expression: bytes | None, keys: Sequence[MetastoreColumn]) -> PartitionFilter:
    """Return the filter of an expression that selects what is dropped. BadFilterError if it cannot be read."""
    where = parse_expression(expression, keys)
    if where is None:
        raise BadFilterError(OPAQUE)
    return where
