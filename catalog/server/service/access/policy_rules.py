"""The policies that bind the caller of the present call, in the form that its reader applies, and refusals of what
would go past them.

Files hold all rows and columns. So a bound caller gets neither credentials for the files of a table nor plans of its
scans, unless it is trusted: an engine that applies the policies itself, as Paimon's do with `query-auth.enabled`.
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
from interbed.catalog.server.service.access.objects import SERVER, Privilege, SecuredObject
from interbed.catalog.server.service.access.policies import BindingPolicies, PolicyRepository, TablePolicy
from interbed.catalog.server.service.access.roles import RoleGraph
from interbed.catalog.server.service.errors import AccessDeniedError
from interbed.storage.base.errors import FilterError
from interbed.storage.base.types.data_type import DataField

T = TypeVar("T")


class PolicyReading(Protocol):
    """One unit of work on a database with policies and roles."""

    @property
    def access(self) -> AccessRepository: ...
    @property
    def policies(self) -> PolicyRepository: ...


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
        """Raise AccessDeniedError if policies bind the caller, and it is not trusted to apply them; `what` it asks for
        would show all rows and columns.
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

    def hidden_statistics(self, on: SecuredObject) -> Callable[[str], bool]:
        """Return the function that says of which columns statistics are hidden from the caller: of masked ones, and of
        all for a caller that sees some rows only.
        """
        found = self.binding(on)
        hides_all, masked = bool(found.filters), frozenset(found.masks)
        return lambda column: hides_all or column in masked

    def _binding(self, caller: Caller, on: SecuredObject) -> BindingPolicies:
        policies, members = self._store.read(lambda transaction: _found(transaction, on))
        if not policies:
            return BindingPolicies(on=on)
        # Administrators by a setting are not in the database.
        admins = [caller.name] if self._access.may((Privilege.ALL,), SERVER) else []
        return BindingPolicies.of(on, policies, RoleGraph.of(members, admins).grantees(caller))


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
