"""A tree of comparisons of partition keys (service/filters/tree.py) as a condition in SQL.

The condition is text with bound parameters. Long lists are one parameter each, and disjunctions and conjunctions are
written as balanced trees: databases limit both parameters and depth.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from interbed.catalog.server.database.models.partitions import KEY_COLUMNS
from interbed.catalog.server.service.filters.tree import (
    ANY_CHARACTER,
    ANY_TEXT,
    Absent,
    AllOf,
    Compared,
    LikePattern,
    Named,
    OneOf,
    PartitionFilter,
)

_BOUNDS = ("<", "<=", ">", ">=")
_GLOB_SPECIAL = str.maketrans({char: f"[{char}]" for char in "*?["})
_LIKE_SPECIAL = str.maketrans({char: f"\\{char}" for char in "%_\\"})


class FilterSql:
    """The condition of a filter: `condition` is SQL on the columns of `partitions`, `parameters` are what it binds."""

    def __init__(self, where: PartitionFilter, dialect: str) -> None:
        self._postgresql = dialect == "postgresql"
        self.parameters: dict[str, Any] = {}
        self.condition = self._condition(where)

    def _condition(self, part: PartitionFilter) -> str:
        if isinstance(part, Compared):
            return self._compared(part)
        if isinstance(part, OneOf):
            return self._one_of(self._column(part.position), sorted(part.operands), part.negated)
        if isinstance(part, LikePattern):
            return self._like(self._column(part.position), part.pattern, part.negated)
        if isinstance(part, Named):
            return self._like("name", part.pattern, negated=False)
        if isinstance(part, Absent):
            return f"{self._column(part.position)} {'>' if part.negated else '='} ''"
        if isinstance(part, AllOf):
            return self._all_of(part)
        conditions = [self._condition(each) for each in part.parts]
        return _joined("OR", conditions) if conditions else "1 = 0"

    def _all_of(self, part: AllOf) -> str:
        """The conjunction, in which each key has one lower and one upper bound: an index is searched by just these."""
        ranges: dict[int, list[Compared]] = {}
        conditions: list[str] = []
        for each in _flat(part):
            if isinstance(each, Compared) and each.operator in _BOUNDS:
                ranges.setdefault(each.position, []).append(each)
            else:
                conditions.append(self._condition(each))
        for position, bounds in ranges.items():
            lower = [each for each in bounds if each.operator in (">", ">=")]
            upper = [each for each in bounds if each.operator in ("<", "<=")]
            tightest = []
            if lower:
                tightest.append(max(lower, key=lambda each: (each.operand, each.operator == ">")))
            if upper:
                tightest.append(min(upper, key=lambda each: (each.operand, each.operator == "<=")))
            conditions.append(self._range(self._column(position), tightest))
        return _joined("AND", conditions) if conditions else "1 = 1"

    def _range(self, column: str, bounds: Sequence[Compared]) -> str:
        conditions = [f"{column} {each.operator} {self._bound(each.operand)}" for each in bounds]
        if all(each.operator in ("<", "<=") for each in bounds):
            # The empty text stands for no value, and sorts before all of them.
            conditions.append(f"{column} > ''")
        return _joined("AND", conditions)

    def _column(self, position: int) -> str:
        if position < KEY_COLUMNS:
            return f"key_{position}"
        element = position - KEY_COLUMNS
        if self._postgresql:
            return f'(CAST(more_keys AS json) ->> {element}) COLLATE "C"'
        return f"json_extract(more_keys, '$[{element}]')"

    def _bound(self, value: Any) -> str:
        name = f"filter_{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"

    def _compared(self, part: Compared) -> str:
        column = self._column(part.position)
        if part.operator in _BOUNDS:
            return self._range(column, [part])
        condition = f"{column} {part.operator} {self._bound(part.operand)}"
        return condition if part.operator == "=" else self._with_value(column, condition)

    def _with_value(self, column: str, condition: str) -> str:
        # Not as a bound: an index would rather be searched by a bound that selects.
        return f"({condition} AND {column} <> '')"

    def _one_of(self, column: str, operands: Sequence[str], negated: bool) -> str:
        if self._postgresql:
            bound = self._bound(list(operands))
            return self._with_value(column, f"{column} <> ALL ({bound})") if negated else f"{column} = ANY ({bound})"
        within = f"IN (SELECT value FROM json_each({self._bound(json.dumps(list(operands)))}))"
        return self._with_value(column, f"{column} NOT {within}") if negated else f"{column} {within}"

    def _like(self, column: str, pattern: Sequence[str], negated: bool) -> str:
        prefix = pattern[0][1:] if pattern and pattern[0].startswith("\\") else ""
        if len(pattern) == bool(prefix):
            condition = f"{column} {'<>' if negated else '='} {self._bound(prefix)}"
            return self._with_value(column, condition) if negated else condition
        matches = f"{column} {'NOT ' if negated else ''}{self._matching(pattern)}"
        if negated or not prefix:
            return self._with_value(column, matches)
        bounds = [f"{column} >= {self._bound(prefix)}"]
        end = text_after(prefix)
        if end is not None:
            bounds.append(f"{column} < {self._bound(end)}")
        # For a plain prefix the bounds say all, and they are what an index understands.
        if tuple(pattern[1:]) != (ANY_TEXT,) or end is None:
            bounds.append(matches)
        return _joined("AND", bounds)

    def _matching(self, pattern: Sequence[str]) -> str:
        if self._postgresql:
            text = "".join(part if part in (ANY_TEXT, ANY_CHARACTER) else _like_literal(part[1:]) for part in pattern)
            return f"LIKE {self._bound(text)} ESCAPE '\\'"
        # SQLite's LIKE ignores the case of letters, GLOB does not.
        wildcards = {ANY_TEXT: "*", ANY_CHARACTER: "?"}
        text = "".join(wildcards.get(part) or part[1:].translate(_GLOB_SPECIAL) for part in pattern)
        return f"GLOB {self._bound(text)}"


def _flat(part: AllOf) -> Iterator[PartitionFilter]:
    for each in part.parts:
        if isinstance(each, AllOf):
            yield from _flat(each)
        else:
            yield each


def text_after(prefix: str) -> str | None:
    """The first text, by code points, after all that begin with the prefix; None if there is none."""
    stripped = prefix.rstrip("\U0010ffff")
    if not stripped:
        return None
    code = ord(stripped[-1]) + 1
    # Surrogates are no characters.
    return stripped[:-1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)


def _like_literal(text: str) -> str:
    return text.translate(_LIKE_SPECIAL)


def _joined(operator: str, conditions: Sequence[str]) -> str:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_joined(operator, conditions[:middle])} {operator} {_joined(operator, conditions[middle:])})"
