"""What a client wants to see of an object: some fields by dotted names (`sd.serdeInfo.name`), some parameters.

Patterns of parameters are SQL's: `%` stands for any text and `_` for one character. Without a list of fields
everything is sent.

A projection of tables is answered as by Hive: without patterns of parameters unless there are fields, as whole tables
if a field with many values is among those asked for, and with the times in any case.
"""

import re
from collections.abc import Sequence
from typing import Any

from thrift.Thrift import TType

from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError
from interbed.catalog.server.service.names import LISTED_MAX, check_number, check_pattern_length, shortened
from interbed.thrift_idl.hive_metastore import ttypes

_Tree = dict[str, "_Tree"]

FIELD_CHARACTERS_MAX = 256
"""Characters in a dotted name of a field; Hive's structures have names of 50."""


_MANY_VALUED = frozenset(
    (
        "values",
        "parameters",
        "partitionKeys",
        "sd.bucketCols",
        "sd.cols",
        "sd.parameters",
        "sd.serdeInfo.parameters",
        "sd.skewedInfo",
        "sd.sortCols",
    )
)
"""Fields of a table that are lists or maps; what is inside them counts, too."""

_ALWAYS_SENT = ("createTime", "lastAccessTime", "retention")


class Projection:
    """A GetProjectionsSpec structure, ready to be used on many objects; None wants everything.

    MetastoreError if a field does not exist, as soon as the first object is looked at.
    """

    def __init__(self, spec: Any) -> None:
        self._tree = _tree(() if spec is None else spec.fieldList or ())
        self._included = None if spec is None else _matcher(spec.includeParamKeyPattern)
        self._excluded = None if spec is None else _matcher(spec.excludeParamKeyPattern)

    def of(self, structure: Any) -> Any:
        """The structure with what is wanted; it is changed in place."""
        if self._tree:
            structure = _projected(structure, self._tree)
        parameters = structure.parameters
        if parameters is not None and (self._included is not None or self._excluded is not None):
            structure.parameters = {key: value for key, value in parameters.items() if self._wants(key)}
        return structure

    def _wants(self, key: str) -> bool:
        if self._included is not None and self._included.fullmatch(key) is None:
            return False
        return self._excluded is None or self._excluded.fullmatch(key) is None


def table_projection(spec: Any) -> Projection:
    """A projection of tables. InvalidOperationError for patterns without fields; MetastoreError as Projection."""
    if spec is None:
        return Projection(None)
    if spec.fieldList is None and (spec.includeParamKeyPattern is not None or spec.excludeParamKeyPattern is not None):
        raise InvalidOperationError("Include and Exclude Param key are not supported.")
    fields = list(spec.fieldList or ())
    # Looked at also where the whole table is sent.
    check_fields(ttypes.Table, fields)
    if any(field in _MANY_VALUED or field.rpartition(".")[0] in _MANY_VALUED for field in fields):
        fields = []
    wanted = [*fields, *_ALWAYS_SENT] if fields else []
    return Projection(
        ttypes.GetProjectionsSpec(
            fieldList=wanted,
            includeParamKeyPattern=spec.includeParamKeyPattern,
            excludeParamKeyPattern=spec.excludeParamKeyPattern,
        )
    )


def _tree(fields: Sequence[str]) -> _Tree:
    check_number("fields", len(fields), LISTED_MAX)
    tree: _Tree = {}
    for field in fields:
        if len(field) > FIELD_CHARACTERS_MAX:
            raise MetastoreError(f"Invalid field name: {shortened(field)}")
        node = tree
        for part in field.split("."):
            node = node.setdefault(part, {})
    return tree


def check_fields(structure: Any, fields: Sequence[str]) -> None:
    """MetastoreError if a structure, or what is in it, has no field of one of the names."""
    _check(structure, _tree(fields))


def _check(structure: Any, tree: _Tree) -> None:
    known = {field[2]: field for field in structure.thrift_spec if field is not None}
    for name, inner in tree.items():
        if name not in known:
            raise MetastoreError(f"Invalid field name: {shortened(name)}")
        field = known[name]
        if inner and field[1] == TType.STRUCT:
            _check(field[3][0], inner)
        elif inner and field[1] == TType.LIST and field[3][0] == TType.STRUCT:
            _check(field[3][1][0], inner)


def _projected(structure: Any, tree: _Tree) -> Any:
    known = {field[2]: field for field in structure.thrift_spec if field is not None}
    for name in tree:
        if name not in known:
            raise MetastoreError(f"Invalid field name: {shortened(name)}")
    chosen = type(structure)()
    for name, field in known.items():
        value = getattr(structure, name) if name in tree else None
        inner = tree.get(name)
        if inner and value is not None:
            if field[1] == TType.STRUCT:
                value = _projected(value, inner)
            elif field[1] == TType.LIST and field[3][0] == TType.STRUCT:
                value = [_projected(each, inner) for each in value]
        setattr(chosen, name, value)
    return chosen


def _matcher(pattern: str | None) -> re.Pattern[str] | None:
    if not pattern:
        return None
    check_pattern_length(pattern)
    # Each part between two stars is matched once and for all, so that no pattern takes more than quadratic time.
    parts = ["".join("." if char == "_" else re.escape(char) for char in part) for part in pattern.split("%")]
    if len(parts) == 1:
        return re.compile(parts[0], re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in parts[1:-1])
    return re.compile(f"{parts[0]}{middle}.*{parts[-1]}", re.DOTALL)
