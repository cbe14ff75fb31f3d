"""Row filters and column masks as owners and administrators set them, checked against the columns of their table.

A policy may use what Paimon's readers can apply, and no more: what they cannot is refused here, by name. Values of
partition columns are names of directories and in lists of partitions, so that they have no masks.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from interbed.catalog.server.service.access import records
from interbed.catalog.server.service.access.administration import AccessTransaction
from interbed.catalog.server.service.access.authorizer import Authorizer, AuthorizerUnavailableError, Caller
from interbed.catalog.server.service.access.grants import AccessRepository, Grantee, GranteeKind, is_grantee_name
from interbed.catalog.server.service.access.guard import denied
from interbed.catalog.server.service.access.objects import Access, Privilege, SecuredKind, SecuredObject
from interbed.catalog.server.service.access.paimon_types import paimon_type
from interbed.catalog.server.service.access.policies import (
    POLICIES_MAX,
    PolicyKind,
    TablePolicy,
)
from interbed.catalog.server.service.errors import (
    AccessUnavailableError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.repository import Tables
from interbed.storage.base.errors import FilterError
from interbed.storage.base.types.data_type import DataField

T = TypeVar("T")

_POLICY_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)


class PolicyTransaction(AccessTransaction, Protocol):
    """One unit of work on a database with tables, too."""

    @property
    def tables(self) -> Tables: ...


class PolicyUnits(Protocol):
    """Database of the metastore, for policies of tables."""

    def read(self, work: Callable[[PolicyTransaction], T]) -> T: ...
    def write(self, work: Callable[[PolicyTransaction], T]) -> T: ...


class PolicyAdministration:
    """Policies of tables. Safe for many threads and processes.

    The actor of a call is its caller, None for the operator at the database, an administrator; `operator` is the
    name that the operator's changes bear. Other actors need the privilege ALL on the table, as its owner and
    administrators have it.
    """

    def __init__(
        self,
        store: PolicyUnits,
        authorizer: Authorizer,
        *,
        operator: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._operator = operator
        self._clock = clock

    def set(self, on: SecuredObject, policy: TablePolicy, actor: Caller | None) -> None:
        """Store a policy of a table, in place of the one of its name.

        AccessDeniedError, NoSuchObjectError for a table or a role that does not exist, InvalidObjectError for a policy
        that does not fit the table, InvalidOperationError for a second mask of a column for the same grantee.
        """
        self._check_actor(on, actor)
        given_by = self._operator if actor is None else actor.name
        stored = replace(policy, created_by=given_by, created_at=int(self._clock()))

        def work(transaction: PolicyTransaction) -> None:
            table = self._begin(transaction, on)
            others = [each for each in transaction.policies.of_table(on) if each.name != stored.name]
            _check_policy(transaction.access, stored, others)
            _check_expression(stored, table)
            transaction.policies.put(on, stored)
            transaction.history.record(records.policy_set(transaction.access, on, stored))

        self._store.write(work)

    def drop(self, on: SecuredObject, name: str, actor: Caller | None) -> None:
        """Remove a policy of a table. AccessDeniedError, NoSuchObjectError."""
        self._check_actor(on, actor)

        def work(transaction: PolicyTransaction) -> None:
            self._begin(transaction, on)
            found = [each for each in transaction.policies.of_table(on) if each.name == name]
            if not found:
                raise NoSuchObjectError(f"the {on} has no policy {shortened(name)}")
            transaction.policies.remove(on, name)
            transaction.history.record(records.policy_dropped(transaction.access, on, found[0]))

        self._store.write(work)

    def policies(self, on: SecuredObject, actor: Caller | None) -> Sequence[TablePolicy]:
        """Return the policies of a table, by name. AccessDeniedError, NoSuchObjectError."""
        self._check_actor(on, actor)

        def work(transaction: PolicyTransaction) -> Sequence[TablePolicy]:
            _table(transaction, on)
            return transaction.policies.of_table(on)

        return self._store.read(work)

    def _check_actor(self, on: SecuredObject, actor: Caller | None) -> None:
        if on.kind is not SecuredKind.TABLE:
            raise InvalidObjectError(f"policies are those of tables, not of the {on}")
        if actor is None:
            return
        try:
            is_seen, may = self._authorizer.decide(actor, [Access(None, on), Access(Privilege.ALL, on)])
        except AuthorizerUnavailableError as error:
            raise AccessUnavailableError(f"access cannot be decided at present: {error}; try again") from error
        if not is_seen:
            raise _missing(on)
        if not may:
            raise denied(actor.name, (Privilege.ALL,), on)

    def _begin(self, transaction: PolicyTransaction, on: SecuredObject) -> MetastoreTable:
        """Lock the table, then roles and grants; caches of answers are keyed by the generation of these."""
        if not transaction.access.exists(on):
            raise _missing(on)
        transaction.access.advance()
        return _table(transaction, on)


def _table(transaction: PolicyTransaction, on: SecuredObject) -> MetastoreTable:
    found = transaction.tables.find(on.catalog or "", on.database or "", on.name or "")
    if found is None:
        raise _missing(on)
    return found.value


def _missing(on: SecuredObject) -> NoSuchObjectError:
    return NoSuchObjectError(f"the {on} does not exist")


def _check_policy(access: AccessRepository, policy: TablePolicy, others: Sequence[TablePolicy]) -> None:
    if _POLICY_NAME.fullmatch(policy.name) is None:
        raise InvalidObjectError(
            f"{shortened(policy.name)!r} is not the name of a policy: it is 1 to 128 letters, digits, underscores, "
            "dots and hyphens"
        )
    if (policy.kind is PolicyKind.MASK) != (policy.column is not None):
        raise InvalidObjectError("a mask has a column, and a row filter has none")
    if not policy.bound:
        raise InvalidObjectError("a policy binds at least one user, group or role; the role public is everyone")
    if len(others) >= POLICIES_MAX:
        raise InvalidOperationError(f"the table has {len(others)} policies: {POLICIES_MAX} are allowed")
    roles = {role.name for role in access.roles()}
    for each in (*policy.bound, *policy.exempt):
        _check_grantee(roles, each)
    for other in others:
        if policy.column is not None and other.column == policy.column and set(other.bound) & set(policy.bound):
            shared = sorted(set(other.bound) & set(policy.bound), key=str)[0]
            raise InvalidOperationError(
                f"the {other} binds the {shared} already, and a caller has one mask of a column: drop it, or change it"
            )


def _check_grantee(roles: set[str], grantee: Grantee) -> None:
    if not is_grantee_name(grantee.name):
        raise InvalidObjectError(f"{shortened(grantee.name)!r} is not the name of a {grantee.kind}")
    if grantee.kind is GranteeKind.ROLE and grantee.name not in roles:
        raise NoSuchObjectError(f"the role {shortened(grantee.name)} does not exist")


def _check_expression(policy: TablePolicy, table: MetastoreTable) -> None:
    # Needs the libraries of filters, which few calls need.
    from interbed.storage.base.predicate.grammar import parse_filter
    from interbed.storage.base.predicate.masks import parse_mask
    from interbed.storage.base.predicate.paimon_json import filter_to_paimon

    if table.is_view:
        raise InvalidObjectError("a view has no policies: set them for the tables that it reads")
    columns = [*(table.storage.columns if table.storage is not None else ()), *table.partition_keys]
    fields = [
        DataField(id=index, name=column.name, type=paimon_type(column.type or ""))
        for index, column in enumerate(columns)
    ]
    if policy.column in {key.name for key in table.partition_keys}:
        raise InvalidObjectError(
            f"{policy.column!r} is a partition column, whose values are names of directories: it has no mask. Filter "
            "rows by it, or partition by another column"
        )
    try:
        if policy.column is None:
            filter_to_paimon(parse_filter(policy.expression, fields), fields)
        else:
            parse_mask(policy.expression, policy.column, fields)
    except FilterError as error:
        raise InvalidObjectError(f"the {policy} does not fit the table: {error}") from error
