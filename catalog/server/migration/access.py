"""Roles, members of roles and grants of a metastore as they are compared and imported.

They come by Hive's calls, with which interbed's own database answers as well: `get_role_names`,
`get_principals_in_role`, and `list_privileges` without an object, which returns the rows of GLOBAL_PRIVS, DB_PRIVS,
TBL_PRIVS, TBL_COL_PRIVS, PART_PRIVS, PART_COL_PRIVS and DC_PRIVS. What has no form here is refused by name: privileges
on partitions and connectors, those of other authorizers than Hive's SQL, and privileges that interbed does not have.

An import gives what the source has and the target lacks. A source's grants are made in the name of their grantors;
their times are those of the import. Like other objects, those that the target alone has stay, so that `verify` reports
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from interbed.catalog.server.migration.record import CopyOutcome, CopySummary, Key, RecordKind, RefusedError
from interbed.catalog.server.migration.selection import ObjectSelection
from interbed.catalog.server.migration.source import Source
from interbed.catalog.server.migration.target import Target
from interbed.catalog.server.service.access.granting import GrantRequest
from interbed.catalog.server.service.access.objects import (
    ADMIN_ROLE,
    BUILT_IN_ROLES,
    COLUMN_PRIVILEGES,
    PUBLIC_ROLE,
    SERVER,
    Grant,
    Grantee,
    GranteeKind,
    Privilege,
    RoleMember,
    SecuredKind,
    SecuredObject,
    catalog_object,
    column_object,
    database_object,
    is_grantee_name,
    role_name_fault,
    role_named,
    table_object,
)
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.thrift.structs.convert import GRANTEE_KINDS
from interbed.thrift_idl.hive_metastore import ttypes

SQL_AUTHORIZER = "SQL"
"""Hive's name of its SQL standard based authorization, beside the grants of which others store theirs."""

_KIND = ttypes.HiveObjectType


@dataclass(slots=True, kw_only=True)
class AccessRecords:
    """Roles, members and grants by their keys, and those that have no form here, each with the reason."""

    roles: dict[Key, str] = field(default_factory=dict)
    members: dict[Key, RoleMember] = field(default_factory=dict)
    grants: dict[Key, Grant] = field(default_factory=dict)
    refused: list[tuple[Key, str]] = field(default_factory=list)

    def fields(self) -> dict[Key, dict[str, Any]]:
        """Return the fields of all records that are compared."""
        return {
            **{key: {} for key in self.roles},
            **{key: {"adminOption": each.admin_option} for key, each in self.members.items()},
            **{key: {"grantOption": each.grant_option} for key, each in self.grants.items()},
        }


def access_records(source: Source, selection: ObjectSelection) -> AccessRecords:
    """Return the roles of a source, and the grants on selected objects, the server and catalogs. RefusedError if it
    does not list them.
    """
    found = AccessRecords()
    for name in sorted({*map(str.lower, source.role_names()), *BUILT_IN_ROLES}):
        key, fault = Key(kind=RecordKind.ROLE, catalog=name), role_name_fault(name)
        if fault is not None:
            found.refused.append((key, fault))
            continue
        found.roles[key] = name
        # Everyone is in this role, so that it has no members.
        for each in () if name == PUBLIC_ROLE else source.role_members(name):
            _add_member(found, name, each)
    for each in source.privileges():
        _add_grant(found, each, selection)
    return found


def _add_member(found: AccessRecords, role: str, each: Any) -> None:
    kind = GRANTEE_KINDS.get(each.principalType)
    shown = f"{'principal' if kind is None else kind} {shortened(each.principalName)}"
    key = Key(kind=RecordKind.ROLE_MEMBER, catalog=role, constraint=shown)
    reason = _unfit_grantee(kind, each.principalName)
    if kind is None or reason is not None:
        found.refused.append((key, reason or ""))
        return
    member = _grantee(kind, each.principalName)
    found.members[replace(key, constraint=str(member))] = RoleMember(
        role=role, member=member, admin_option=bool(each.grantOption), grantor=each.grantorName or ""
    )


def _add_grant(found: AccessRecords, each: Any, selection: ObjectSelection) -> None:
    ref, info, kind = each.hiveObject, each.grantInfo, GRANTEE_KINDS.get(each.principalType)
    catalog, database = normalized(ref.catName) or DEFAULT_CATALOG, normalized(ref.dbName)
    if not _is_selected(selection, ref, catalog, database):
        return
    on = _object(ref, catalog, database)
    privilege = _PRIVILEGES.get((info.privilege or "").upper().replace(" ", "_"))
    reason = _unfit(each, on, privilege) or _unfit_grantee(kind, each.principalName)
    shown = f"{shortened(info.privilege)} to {'principal' if kind is None else kind} {shortened(each.principalName)}"
    if reason is not None or on is None or privilege is None or kind is None:
        key = Key(
            kind=RecordKind.GRANT,
            catalog=catalog if ref.dbName else "server",
            database=database or None,
            name=normalized(ref.objectName) or None,
            partition="/".join(ref.partValues or ()) or None,
            column=ref.columnName or None,
            constraint=shown,
        )
        found.refused.append((key, reason or ""))
        return
    grant = Grant(
        privilege=privilege,
        on=on,
        to=_grantee(kind, each.principalName),
        grant_option=bool(info.grantOption),
        grantor=info.grantor or "",
    )
    found.grants[grant_key(grant)] = grant


def grant_key(grant: Grant) -> Key:
    """Return the key of a grant."""
    on = grant.on
    by = f" by {grant.grantor}" if grant.grantor else ""
    return Key(
        kind=RecordKind.GRANT,
        catalog=on.catalog or "server",
        database=on.database,
        name=on.name,
        column=on.column,
        constraint=f"{grant.privilege} to {grant.to}{by}",
    )


def _unfit(each: Any, on: SecuredObject | None, privilege: Privilege | None) -> str | None:
    """Return why a privilege on an object has no form here, None if it has one."""
    kind = each.hiveObject.objectType
    if each.authorizer and each.authorizer.upper() != SQL_AUTHORIZER:
        return f"it is a copy of a grant of the authorizer {shortened(each.authorizer)}, which keeps it"
    if kind == _KIND.PARTITION or each.hiveObject.partValues:
        return "interbed keeps no privileges on partitions: grant it on the table"
    if on is None:
        return f"interbed keeps no privileges on objects of the type {_KIND._VALUES_TO_NAMES.get(kind, kind)}"
    if privilege is None:
        return f"interbed has no privilege {shortened(each.grantInfo.privilege)}; it has {', '.join(Privilege)}"
    if on.kind is SecuredKind.COLUMN and privilege not in COLUMN_PRIVILEGES:
        return f"columns have {', '.join(COLUMN_PRIVILEGES)} alone"
    return None


def _unfit_grantee(kind: GranteeKind | None, name: str | None) -> str | None:
    if kind is None:
        return "its principal is of no type of Hive's"
    if kind is GranteeKind.ROLE:
        return role_name_fault(role_named(name or "").name)
    if not is_grantee_name(name or ""):
        return f"{shortened(name)!r} is not the name of a {kind}"
    return None


def _grantee(kind: GranteeKind, name: str) -> Grantee:
    return role_named(name) if kind is GranteeKind.ROLE else Grantee(kind, name)


def _object(ref: Any, catalog: str, database: str) -> SecuredObject | None:
    match ref.objectType:
        case _KIND.GLOBAL:
            return SERVER if not ref.catName else catalog_object(catalog)
        case _KIND.DATABASE:
            return database_object(catalog, database)
        case _KIND.TABLE:
            return table_object(catalog, database, normalized(ref.objectName))
        case _KIND.COLUMN:
            table = table_object(catalog, database, normalized(ref.objectName))
            return column_object(table, normalized(ref.columnName)) if ref.columnName else None
        case _:
            return None


def _is_selected(selection: ObjectSelection, ref: Any, catalog: str, database: str) -> bool:
    if not database:
        return selection.is_everything
    if ref.objectType in (_KIND.DATABASE, _KIND.DATACONNECTOR):
        # A privilege on a database holds for all of its tables.
        return selection.functions(catalog, database) and selection.database(catalog, database)
    return selection.database(catalog, database) and selection.table(catalog, database, ref.objectName or "")


_PRIVILEGES: Mapping[str, Privilege] = {
    **{str(each): each for each in Privilege},
    # Hive's authorization before the SQL standard based one has names of its own.
    "ALTER_METADATA": Privilege.ALTER,
    "ALTER_DATA": Privilege.UPDATE,
}


V = TypeVar("V")

GRANTS_AT_ONCE = 500
"""Grants of one transaction."""


class AccessCopy:
    """The import of the roles and grants of a source, with its results in a summary. `target` is None for a dry run
    into a database that does not exist yet.
    """

    def __init__(
        self, source: Source, target: Target | None, selection: ObjectSelection, summary: CopySummary, *, dry_run: bool
    ) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._summary = summary
        self._dry_run = dry_run or target is None

    def run(self) -> None:
        """Copy roles, members and grants, in this order."""
        try:
            wanted = access_records(self._source, self._selection)
        except RefusedError as error:
            self._fail(Key(kind=RecordKind.ROLE, catalog=self._source.name), error)
            return
        present = AccessRecords() if self._target is None else access_records(self._target.source, self._selection)
        for key, reason in wanted.refused:
            self._fail(key, reason)
        self._each(wanted.roles, present.roles, self._put_role)
        self._each(wanted.members, present.members, self._put_member)
        self._grants(wanted.grants, present.grants)
        if any(each.role == ADMIN_ROLE for each in wanted.members.values()):
            self._summary.notes.append(
                f"members of the role {ADMIN_ROLE} may do everything at once, without SET ROLE as in Hive"
            )

    def _each(self, wanted: Mapping[Key, V], present: Mapping[Key, V], put: Callable[[V], None]) -> None:
        for key, value in wanted.items():
            outcome = _outcome(value, present.get(key))
            if outcome is CopyOutcome.COPIED and not self._dry_run:
                try:
                    put(value)
                except MetastoreError as error:
                    self._fail(key, error)
                    continue
            self._summary.count(key.kind, outcome)

    def _grants(self, wanted: Mapping[Key, Grant], present: Mapping[Key, Grant]) -> None:
        outcomes = {key: _outcome(grant, present.get(key)) for key, grant in wanted.items()}
        for outcome in (CopyOutcome.UNCHANGED, CopyOutcome.DIFFERENT):
            self._summary.count(RecordKind.GRANT, outcome, sum(each is outcome for each in outcomes.values()))
        missing = [key for key, outcome in outcomes.items() if outcome is CopyOutcome.COPIED]
        for start in range(0, len(missing), GRANTS_AT_ONCE):
            self._put_grants({key: wanted[key] for key in missing[start : start + GRANTS_AT_ONCE]})

    def _put_grants(self, grants: Mapping[Key, Grant]) -> None:
        """Give privileges in one transaction; if one of them is refused, each in its own."""
        try:
            if not self._dry_run:
                assert self._target is not None
                self._target.access.grant([_request(each) for each in grants.values()], None)
        except MetastoreError as error:
            assert self._target is not None
            # The database itself may be lost: then no other grant can be stored either.
            self._target.check()
            if len(grants) > 1:
                for key, grant in grants.items():
                    self._put_grants({key: grant})
                return
            self._fail(next(iter(grants)), error)
            return
        self._summary.count(RecordKind.GRANT, CopyOutcome.COPIED, len(grants))

    def _put_role(self, name: str) -> None:
        assert self._target is not None
        self._target.access.create_role(name, None)

    def _put_member(self, member: RoleMember) -> None:
        assert self._target is not None
        self._target.access.add_member(
            member.role, member.member, None, admin_option=member.admin_option, grantor=member.grantor
        )

    def _fail(self, key: Key, reason: Exception | str) -> None:
        self._summary.count(key.kind, CopyOutcome.FAILED)
        self._summary.add_failure(f"{key.kind} {key}", str(reason))


def _outcome(wanted: object, present: object | None) -> CopyOutcome:
    """Return the outcome of a record. An option that the source gives is added; one that it does not give is reported,
    because others may depend on it.
    """
    if present is None or (_option(wanted) and not _option(present)):
        return CopyOutcome.COPIED
    return CopyOutcome.UNCHANGED if _option(wanted) == _option(present) else CopyOutcome.DIFFERENT


def _option(record: object) -> bool:
    if isinstance(record, Grant):
        return record.grant_option
    return isinstance(record, RoleMember) and record.admin_option


def _request(grant: Grant) -> GrantRequest:
    return GrantRequest(
        privilege=grant.privilege, on=grant.on, to=grant.to, grant_option=grant.grant_option, grantor=grant.grantor
    )
