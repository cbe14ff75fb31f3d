"""Expressions that clients send for partitions: text for some, Java's serialized form of a query for others.

MSCK sends a filter as UTF-8 text, in which values are escaped as in partitions' names. Hive's own queries send their
expression as Kryo writes it: kryo_expression.py reads the simple ones of Hive 4; what others select is not known here.
"""

from collections.abc import Sequence

from interbed.catalog.server.service.errors import BadFilterError
from interbed.catalog.server.service.filters.expression import parse_filter
from interbed.catalog.server.service.filters.kryo_expression import filter_of_expression
from interbed.catalog.server.service.filters.tree import PartitionFilter
from interbed.catalog.server.service.model import MetastoreColumn

OPAQUE = (
    "The partitions are given by a serialized Java expression that only Hive can read: nothing was dropped. Name the "
    "partitions instead (drop_partition, or drop_partitions_req with names), or send the expression as the text of a "
    "filter, as Hive's MsckPartitionExpressionProxy reads it."
)


def parse_expression(expression: bytes | None, keys: Sequence[MetastoreColumn]) -> PartitionFilter | None:
    """What an expression selects; None if it is neither text nor a condition of Hive 4 that can be read."""
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
    """The same where something is dropped by it. BadFilterError if it cannot be read."""
    where = parse_expression(expression, keys)
    if where is None:
        raise BadFilterError(OPAQUE)
    return where
