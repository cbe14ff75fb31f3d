"""What a condition looks at: a column, or a value inside of a nested one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.literals import locate
from interbed.storage.base.row.values import type_name
from interbed.storage.base.shown_text import did_you_mean
from interbed.storage.base.types.data_type import AtomicType, DataField, DataType, MapType, RowType


@dataclass(frozen=True, slots=True)
class Inner:
    """A value inside of a column: `s.f` of a ROW, `m['key']` of a MAP; null where there is no such entry, or no MAP.

    `steps` lead to it from the outside in: the name of a ROW's field, the key of a MAP's entry.
    """

    column: str
    steps: tuple[object, ...]

    def __str__(self) -> str:
        return self.column + "".join(f"[{_step_text(step)}]" for step in self.steps)


Reference: TypeAlias = str | Inner
"""The name of a column, or a value inside of one."""


def column_of(reference: Reference) -> str:
    """The column that is looked at."""
    return reference.column if isinstance(reference, Inner) else reference


def renamed(reference: Reference, names: Mapping[str, str]) -> Reference:
    """The reference with its column renamed; one that is not in the map keeps its name."""
    if isinstance(reference, Inner):
        return Inner(names.get(reference.column, reference.column), reference.steps)
    return names.get(reference, reference)


def find(reference: Reference, fields: Mapping[str, DataField]) -> tuple[Reference, DataField]:
    """The reference with keys as values of their types, and what it refers to, as a field under the reference's text.

    Raises FilterError for a column, a field or a kind of key that there is not.
    """
    name = column_of(reference)
    field = fields.get(name)
    if field is None:
        raise FilterError(
            f"The filter names the column {name!r}; the columns are {', '.join(fields) or 'none'}."
            f"{did_you_mean(name, fields)}"
        )
    if isinstance(reference, str):
        return reference, field
    data_type = field.type
    steps: list[object] = []
    for step in reference.steps:
        found, data_type = _inside(data_type, step, str(Inner(name, tuple(steps))))
        steps.append(found)
    bound = Inner(name, tuple(steps))
    return bound, DataField(field.id, str(bound), data_type)


def _inside(data_type: DataType, step: object, where: str) -> tuple[object, DataType]:
    """The step as a value of its type, and the type of what it leads to."""
    match data_type:
        case RowType(fields=fields):
            by_name = {f.name: f.type for f in fields}
            if not isinstance(step, str) or step not in by_name:
                raise FilterError(
                    f"The filter names the field {step!r} of {where}; its fields are {', '.join(by_name)}."
                    f"{did_you_mean(str(step), by_name)}"
                )
            return step, by_name[step].with_nullable(True)
        case MapType(key=AtomicType() as key, value=value):
            place = None if step is None else locate(step, DataField(0, f"{where}[…]", key))
            if place is None or not place.exact:
                raise FilterError(
                    f"The filter asks for the key {step!r} of {where}; its keys are {type_name(key)}, which has no "
                    "such value."
                )
            return place.value, value.with_nullable(True)
        case _:
            raise FilterError(
                f"The filter looks for {step!r} inside of {where}, which is {type_name(data_type)}; only a ROW has "
                "fields, and only a MAP entries by key."
            )


def _step_text(step: object) -> str:
    return "'" + step.replace("'", "''") + "'" if isinstance(step, str) else str(step)
