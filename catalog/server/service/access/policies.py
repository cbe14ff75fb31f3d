"""Row filters and column masks: how owners and administrators set them, and what they and privileges on columns mean
for the caller of the present call.

A policy is checked against the columns of its table. It may use what Paimon's readers can apply, and no more: what they
cannot is refused here, by name. Values of partition columns are names of directories and in lists of partitions, so
that they have no masks.

A reader gets the policies that bind it in the form that it applies. Files hold all rows and columns. So a bound caller,
and one that may read some columns only, gets neither credentials for the files of a table nor plans of its scans,
unless it is trusted: an engine that applies the policies itself, as Paimon's do with `query-auth.enabled`.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from interbed.catalog.server.service.access import granting
from interbed.catalog.server.service.access.administration import AccessTransaction
from interbed.catalog.server.service.access.granting import RoleGraph
from interbed.catalog.server.service.access.guard import AccessGuard, denied
from interbed.catalog.server.service.access.objects import (
    POLICIES_MAX,
    PUBLIC,
    SERVER,
    Access,
    AccessRepository,
    Authorizer,
    AuthorizerUnavailableError,
    BindingPolicies,
    Caller,
    Grantee,
    GranteeKind,
    PolicyKind,
    PolicyRepository,
    Privilege,
    RoleMember,
    SecuredKind,
    SecuredObject,
    TablePolicy,
    column_object,
    is_grantee_name,
    role_named,
    table_object,
)
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.model import MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.repository import TablePolicies, Tables
from interbed.storage.base.errors import CorruptFileError, FilterError
from interbed.storage.base.types.data_type import ArrayType, AtomicType, DataField, DataType, MapType, RowType

_NESTED = re.compile(r"\s*(array|map|struct)\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_HIVE_TYPES = {"string": "STRING", "binary": "BYTES", "timestamp with local time zone": "TIMESTAMP_LTZ"}


def paimon_type(hive_type: str) -> DataType:
    """Return Paimon's type for one of Hive. InvalidObjectError where there is none."""
    nested = _NESTED.fullmatch(hive_type)
    if nested is None:
        text = hive_type.strip().lower()
        try:
            return AtomicType(_HIVE_TYPES.get(text, text.upper()))
        except (CorruptFileError, ValueError) as error:
            raise _no_type(hive_type) from error
    parts = list(_parts(nested[2]))
    match nested[1].lower(), parts:
        case "array", [element]:
            return ArrayType(paimon_type(element))
        case "map", [key, value]:
            return MapType(paimon_type(key).with_nullable(False), paimon_type(value))
        case "struct", _:
            named = [part.partition(":") for part in parts]
            return RowType(
                DataField(id=index, name=name.strip(), type=paimon_type(inner))
                for index, (name, _, inner) in enumerate(named)
            )
    raise _no_type(hive_type)


def _no_type(hive_type: str) -> InvalidObjectError:
    return InvalidObjectError(f"Paimon has no type for Hive's '{hive_type}'.")


def _parts(text: str) -> Iterator[str]:
    """Return the parts between the commas outside of brackets."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


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
            transaction.history.record(granting.policy_set(transaction.access, on, stored))

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
            transaction.history.record(granting.policy_dropped(transaction.access, on, found[0]))

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
    from interbed.storage.base.predicate.json import filter_to_paimon
    from interbed.storage.base.predicate.masks import parse_mask

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
        from interbed.storage.base.predicate.json import filter_to_paimon, mask_to_paimon
        from interbed.storage.base.predicate.masks import parse_mask

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


def check_policies_after(
    policies: TablePolicies, old: MetastoreTable, new: MetastoreTable, names: Mapping[str, str] | None
) -> None:
    """Raise InvalidOperationError if a policy of a changed table would bind another column than it was set for.

    `names` are the new names of the columns by their old ones, None if all keep their names. A policy whose column was
    renamed or dropped does not fit any more, and reads are refused. It must not fit again because another column gets
    the old name: the renamed column would be shown without its mask.
    """
    if names is None and set(new.column_names) <= set(old.column_names):
        return
    on = table_object(new.catalog, new.database, new.name)
    before = frozenset(old.column_names)
    known = {name: name for name in before} if names is None else names
    taken = {after for name, after in known.items() if name != after}
    # A column that is dropped and added by one change replaces the old one, whose values are no longer shown.
    kept = {name for name in before if known.get(name, name) == name} - taken
    for policy in policies.of_table(on):
        if _fits(policy, new, new.column_names) and not _fits(policy, new, kept):
            raise InvalidOperationError(
                f"the {policy} of the {on} would bind another column, because a column gets the name of one that was "
                "renamed or dropped: drop the policy, change the columns, and set it again"
            )


def _fits(policy: TablePolicy, table: MetastoreTable, names: Collection[str]) -> bool:
    columns = (*(table.storage.columns if table.storage is not None else ()), *table.partition_keys)
    fields = tuple(each for each in columns if normalized(each.name) in names)
    try:
        _check_expression(policy, replace(table, storage=StorageDescriptor(columns=fields), partition_keys=()))
    except InvalidObjectError:
        return False
    return True


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
