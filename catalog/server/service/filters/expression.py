"""The filter language of partitions: `dt = "2024-01-01" and (n > 3 or (n) in (1, 2))`.

Keys are compared with literals (or literals with keys); operators are =, !=, <>, <, <=, >, >=, LIKE, BETWEEN, IN (of
several keys, too: `(struct(a, b)) in (const struct(1, "x"))`) and their negations, joined by AND, OR, NOT and
parentheses.
Literals are numbers, quoted text, and dates and timestamps, bare, quoted, or after DATE or TIMESTAMP. In text a
backslash stands for itself, but before the quote that encloses the text; clients do not escape. LIKE knows `%`, `_`
and, as older clients write it, `.*`; a backslash takes the meaning from `%` and `_`. An empty filter selects all.

The result is a tree of filter_tree.py; the grammar is in filter_grammar.py.
"""

from collections.abc import Sequence

from interbed.catalog.server.service.errors import BadFilterError
from interbed.catalog.server.service.filters.tree import EVERYTHING, PartitionFilter, comparisons_in, patterns_in
from interbed.catalog.server.service.model import MetastoreColumn

FILTER_CHARACTERS_MAX = 200_000
"""Longer filters are refused, since a million characters take up to 8 s to parse; Spark's lists of a thousand values
stay far below.
"""

COMPARISONS_MAX = 5_000
"""Comparisons in a filter. Those of one key with many values, by IN or by `or` or by `<>` and `and`, are one."""

PATTERNS_MAX = 100
"""LIKEs in a filter: no index helps with them, so that each is tried on each partition."""


def parse_filter(
    text: str | None, keys: Sequence[MetastoreColumn], *, escaped_literals: bool = False
) -> PartitionFilter:
    """The tree of a filter, in whose texts characters may be escaped as in partitions' names. BadFilterError if it does
    not parse, names something else than a key, or compares unlike things.
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
