"""Policies of tables: row filters and column masks, whom they bind, and how several of them combine.

A row filter is a condition over columns (docs/sql.md); its readers see the rows for which it is true. A column mask is
an expression whose value they see in place of the column's (storage/base/predicate/masks.py). A policy binds the
callers that it names by user, group or role, without those that it exempts; the role `public` is everyone. All filters
that bind a caller hold together (AND). Of a column, a caller has one mask: of several that bind it, the first by name.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.catalog.server.service.access.grants import Grantee
from interbed.catalog.server.service.access.objects import SecuredObject

POLICIES_MAX = 100
"""Policies of one table."""


class PolicyKind(StrEnum):
    """The kinds of policies."""

    FILTER = "filter"
    MASK = "mask"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePolicy:
    """A row filter of a table, or the mask of a `column`. `created_at` is in seconds since the epoch."""

    name: str
    kind: PolicyKind
    expression: str
    column: str | None = None
    bound: tuple[Grantee, ...]
    exempt: tuple[Grantee, ...] = ()
    created_by: str | None = None
    created_at: int = 0

    def binds(self, grantees: Collection[Grantee]) -> bool:
        """Return whether the policy binds a caller with these grantees."""
        return any(each in grantees for each in self.bound) and not any(each in grantees for each in self.exempt)

    def __str__(self) -> str:
        return f"row filter {self.name}" if self.column is None else f"mask {self.name} of the column {self.column}"

    def to_json(self) -> dict[str, object]:
        """Return the policy for commands and histories."""
        return {
            "name": self.name,
            "kind": str(self.kind),
            "column": self.column,
            "expression": self.expression,
            "to": [each.key for each in self.bound],
            "except": [each.key for each in self.exempt],
            "created_by": self.created_by,
            "created_at": self.created_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingPolicies:
    """The policies that bind a caller on a table: row filters, and the masks by their columns."""

    on: SecuredObject
    filters: Sequence[TablePolicy] = ()
    masks: Mapping[str, TablePolicy] = field(default_factory=dict)

    @classmethod
    def of(cls, on: SecuredObject, policies: Sequence[TablePolicy], grantees: Collection[Grantee]) -> "BindingPolicies":
        """Return those of a table's policies that bind a caller with these grantees."""
        binding = sorted((each for each in policies if each.binds(grantees)), key=lambda each: each.name)
        masks: dict[str, TablePolicy] = {}
        for each in binding:
            if each.column is not None:
                masks.setdefault(each.column, each)
        return cls(on=on, filters=[each for each in binding if each.kind is PolicyKind.FILTER], masks=masks)

    def __bool__(self) -> bool:
        return bool(self.filters or self.masks)

    def __str__(self) -> str:
        return ", ".join(f"the {each}" for each in (*self.filters, *self.masks.values()))


class PolicyRepository(Protocol):
    """Repository of the policies of tables. Policies follow their table: a rename keeps them, a removal removes them,
    and a table that is put back has them again.
    """

    def of_table(self, on: SecuredObject) -> Sequence[TablePolicy]:
        """Return the policies of a table, by name; none for a table that does not exist."""
        ...

    def put(self, on: SecuredObject, policy: TablePolicy) -> None:
        """Store a policy of an existing table, in place of the one of its name."""
        ...

    def remove(self, on: SecuredObject, name: str) -> None: ...
    def naming(self, grantee: Grantee) -> SecuredObject | None:
        """Return a table with a policy that names a grantee, None if there is none."""
        ...
