"""The policies and the privileges on columns that bind the caller of the present call, in the form that its reader
applies, and refusals of what would go past them.

Files hold all rows and columns. So a bound caller, and one that may read some columns only, gets neither credentials
for the files of a table nor plans of its scans, unless it is trusted: an engine that applies the policies itself, as
Paimon's do with `query-auth.enabled`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from interbed.catalog.server.service.access.authorizer import Caller
from interbed.catalog.server.service.access.grants import (
    PUBLIC,
    AccessRepository,
    Grantee,
    GranteeKind,
    RoleMember,
    role_named,
)
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Access,
    Privilege,
    SecuredObject,
    column_object,
)
from interbed.catalog.server.service.access.policies import BindingPolicies, PolicyRepository, TablePolicy
from interbed.catalog.server.service.access.rights import RoleGraph
from interbed.catalog.server.service.errors import AccessDeniedError
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.repository import Tables
from interbed.storage.base.errors import FilterError
from interbed.storage.base.types.data_type import DataField

T = TypeVar("T")

NAMED_COLUMNS_MAX = 20
"""Columns that the text of a refusal names."""


class PolicyReading(Protocol):
    """One unit of work on a database with policies and roles."""

    @property
    def access(self) -> AccessRepository: ...
    @property
    def policies(self) -> PolicyRepository: ...
    @property
    def tables(self) -> Tables: ...


class PolicyReads(Protocol):
    """Database with the policies of tables: the metastore's."""

    def read(self, work: Callable[[PolicyReading], T]) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRules:
    """Row filters, and masks by column, in Paimon's JSON."""

    filters: Sequence[str] = ()
    masks: Mapping[str, str] = field(default_factory=dict)


class PolicyRules:
    """Policies as they bind the callers of a guard. Without an authorizer they bind no one, as grants do.

    `trusted` are the names of principals whose engines apply policies.
    """

    def __init__(self, store: PolicyReads, access: AccessGuard, trusted: Collection[str] = ()) -> None:
        self._store = store
        self._access = access
        self._trusted = frozenset(trusted)

    def binding(self, on: SecuredObject) -> BindingPolicies:
        """Return the policies of a table that bind the present caller; none for the process itself."""
        caller = self._access.caller()
        if caller is None:
            return BindingPolicies(on=on)
        return self._binding(caller, on)

    def is_limited(self, on: SecuredObject) -> bool:
        """Return whether the present caller may not read all rows and columns of a table: policies bind it, or it lacks
        SELECT on the whole table.
        """
        return not self._access.may((Privilege.SELECT,), on) or bool(self.binding(on))

    def check_columns(self, on: SecuredObject, names: Sequence[str]) -> None:
        """Raise AccessDeniedError naming the columns of a table that the caller may not read."""
        caller = self._access.caller()
        if caller is None or self._access.may((Privilege.SELECT,), on):
            return
        readable = self._readable(caller, on, [name.lower() for name in names])
        refused = [name for name in names if name.lower() not in readable]
        if refused:
            listed = ", ".join(map(shortened, refused[:NAMED_COLUMNS_MAX]))
            further = len(refused) - NAMED_COLUMNS_MAX
            more = f" and {further} more" if further > 0 else ""
            raise AccessDeniedError(
                f"{caller.name} lacks the privilege SELECT on the column{'s' if len(refused) > 1 else ''} "
                f"{listed}{more} of the {on}: select other columns; its owner or an administrator may grant it"
            )

    def _readable(self, caller: Caller, on: SecuredObject, names: Sequence[str]) -> set[str]:
        """Return those of the columns that a caller without SELECT on the whole table may read."""
        answers = self._access.decide(caller, [Access(Privilege.SELECT, column_object(on, name)) for name in names])
        return {name for name, is_readable in zip(names, answers, strict=True) if is_readable}

    def reader_rules(self, on: SecuredObject, fields: Sequence[DataField]) -> ReaderRules:
        """Return the policies that bind the caller, for the present columns of the table.

        AccessDeniedError naming the policy that does not fit the columns any more.
        """
        found = self.binding(on)
        if not found:
            return ReaderRules()
        # Needs the libraries of filters, which few calls need.
        from interbed.storage.base.predicate.grammar import parse_filter
        from interbed.storage.base.predicate.masks import parse_mask
        from interbed.storage.base.predicate.paimon_json import filter_to_paimon, mask_to_paimon

        filters, masks = [], {}
        for policy in (*found.filters, *found.masks.values()):
            try:
                if policy.column is None:
                    filters.append(filter_to_paimon(parse_filter(policy.expression, fields), fields))
                else:
                    masks[policy.column] = mask_to_paimon(parse_mask(policy.expression, policy.column, fields), fields)
            except FilterError as error:
                raise AccessDeniedError(
                    f"the {on} cannot be read: its {policy} does not fit its columns any more, and its owner has to "
                    f"set or drop it: {error}"
                ) from error
        return ReaderRules(filters=filters, masks=masks)

    def check_files(self, on: SecuredObject, what: str) -> None:
        """Raise AccessDeniedError if policies bind the caller, or it may read some columns only, and it is not trusted
        to apply that; `what` it asks for would show all rows and columns.
        """
        caller = self._access.caller()
        if caller is None or caller.name in self._trusted:
            return
        found = self._binding(caller, on)
        if found:
            raise AccessDeniedError(
                f"{caller.name} gets no {what} of the {on}, because {found} would not hold for it: read the table "
                "through an engine whose principal is in the setting access_trusted"
            )
        # Callers that may read nothing of it are refused before.
        if not self._access.may((Privilege.SELECT,), on) and self._access.may(
            (Privilege.SELECT,), column_object(on, None)
        ):
            raise AccessDeniedError(
                f"{caller.name} gets no {what} of the {on}, because it lacks the privilege SELECT on the whole table, "
                "and they would show all columns: read the table through an engine whose principal is in the setting "
                "access_trusted"
            )

    def hidden_statistics(self, on: SecuredObject) -> Callable[[str], bool]:
        """Return the function that says of which columns statistics are hidden from the caller: of masked ones, of
        those that it may not read, and of all for a caller that sees some rows only.
        """
        found = self.binding(on)
        if found.filters:
            return lambda _column: True
        masked = frozenset(found.masks)
        caller = self._access.caller()
        if caller is None or self._access.may((Privilege.SELECT,), on):
            return lambda column: column in masked
        readable = self._readable(caller, on, self._store.read(lambda transaction: _columns(transaction, on))) - masked
        return lambda column: column not in readable

    def _binding(self, caller: Caller, on: SecuredObject) -> BindingPolicies:
        policies, members = self._store.read(lambda transaction: _found(transaction, on))
        if not policies:
            return BindingPolicies(on=on)
        # Administrators by a setting are not in the database.
        admins = [caller.name] if self._access.may((Privilege.ALL,), SERVER) else []
        return BindingPolicies.of(on, policies, RoleGraph.of(members, admins).grantees(caller))


def _columns(transaction: PolicyReading, on: SecuredObject) -> Sequence[str]:
    found = transaction.tables.find(on.catalog or "", on.database or "", on.name or "")
    return () if found is None else found.value.column_names


def _found(transaction: PolicyReading, on: SecuredObject) -> tuple[Sequence[TablePolicy], Sequence[RoleMember]]:
    policies = transaction.policies.of_table(on)
    if not policies:
        return (), ()
    roles = {role_named(role.name) for role in transaction.access.roles()}
    return [_closed(each, roles) for each in policies], transaction.access.members()


def _closed(policy: TablePolicy, roles: Collection[Grantee]) -> TablePolicy:
    """Return a policy that binds everyone if a role that it binds is missing: it was dropped while the table was, and
    no other caller would be bound.
    """
    missing = any(each.kind is GranteeKind.ROLE and each not in roles for each in policy.bound)
    return replace(policy, bound=(*policy.bound, PUBLIC)) if missing else policy
