"""Access and dropped tables in a Hive metastore: calls that only some metastores answer, and a parameter of theirs.

`ThriftGrants` has Hive's calls about roles and grants, which interbed's server and Java metastores answer. Hive's
interface has no privileges on functions and catalogs, no revocation of dependent grants, and no policies.

Row filters and column masks are a parameter of the table in the answer to the reader that they bind. Other clients of
Hive's interface ignore it, as they ignore all parameters that they do not know.

`KeptDrops` has the dropped tables that a metastore of interbed's keeps, by calls that each Hive metastore has. A drop
with `interbed.undrop` = `keep` in its environment context keeps the table with its directory, or is refused. A creation
with that key and the name of a dropped table puts the table back. Other metastores ignore the key, and would delete the
files or create a table without columns. So each connection is asked first for a configuration value that only
interbed's metastore has: several addresses may be of different metastores. Another value says that the metastore also
lists dropped objects, takes the ids of drops, puts databases back and purges.
"""

import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from thrift.Thrift import TApplicationException, TException

from interbed.catalog.client.errors import CatalogError, DatabaseExistsError, TableExistsError, TableNotFoundError
from interbed.catalog.client.grants import (
    AccessGrant,
    AccessPolicy,
    GrantHolder,
    GrantObject,
    Privileges,
    RoleMembership,
)
from interbed.catalog.client.hive.connection import REFUSALS, MetastoreCalls, refusal
from interbed.catalog.client.recovery import DroppedEntry
from interbed.storage.base.errors import (
    CorruptFileError,
    FilterError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
)
from interbed.storage.base.types.data_type import DataField
from interbed.storage.read.guarded_scan import RowRules
from interbed.thrift_idl.hive_metastore import ttypes

T = TypeVar("T")

_KINDS = {
    "user": ttypes.PrincipalType.USER,
    "group": ttypes.PrincipalType.GROUP,
    "role": ttypes.PrincipalType.ROLE,
}
_OBJECTS = {
    "server": ttypes.HiveObjectType.GLOBAL,
    "database": ttypes.HiveObjectType.DATABASE,
    "table": ttypes.HiveObjectType.TABLE,
    "column": ttypes.HiveObjectType.COLUMN,
}
_WRONG = (ttypes.NoSuchObjectException, ttypes.AlreadyExistsException, ttypes.InvalidObjectException)


class ThriftCalls(Protocol):
    """The way to a metastore, as the client of Hive metastores has it."""

    def read(self, call: Callable[[Any], T]) -> T:
        """Make a call that may be made twice."""
        ...

    def change(self, call: Callable[[Any], T]) -> T:
        """Make a call that must not be made twice."""
        ...


class ThriftGrants:
    """The roles and grants of one metastore. `user` is the name that calls are made for. Safe for many threads."""

    def __init__(self, calls: ThriftCalls, uri: str, user: str) -> None:
        self._calls = calls
        self._uri = uri
        self._user = user

    def roles(self) -> Sequence[str]:
        """Return the names of the roles."""
        return sorted(self._read("list roles", lambda client: client.get_role_names()))

    def current_roles(self) -> Sequence[str]:
        """Return the roles of the user, directly and by other roles; the groups of the user are not known here."""
        found: set[str] = set()
        waiting = [(self._user, ttypes.PrincipalType.USER)]
        while waiting:
            for each in self._memberships(*waiting.pop()):
                if each.roleName not in found:
                    found.add(each.roleName)
                    waiting.append((each.roleName, ttypes.PrincipalType.ROLE))
        return sorted(found)

    def _memberships(self, name: str, kind: int) -> Sequence[Any]:
        request = ttypes.GetRoleGrantsForPrincipalRequest(name, kind)
        answer = self._read(f"list the roles of {name}", lambda client: client.get_role_grants_for_principal(request))
        return answer.principalGrants or ()

    def create_role(self, name: str) -> None:
        role = ttypes.Role(roleName=name, ownerName=self._user)
        self._change(f"create the role {name}", lambda client: client.create_role(role))

    def drop_role(self, name: str) -> None:
        self._change(f"drop the role {name}", lambda client: client.drop_role(name))

    def members(self, role: str) -> Sequence[RoleMembership]:
        """Return the members of a role."""
        request = ttypes.GetPrincipalsInRoleRequest(role)
        answer = self._read(f"list the members of {role}", lambda client: client.get_principals_in_role(request))
        return [
            RoleMembership(
                role=each.roleName,
                member=_holder(each.principalName, each.principalType),
                admin_option=bool(each.grantOption),
                grantor=each.grantorName or None,
                granted_at=each.grantTime or 0,
            )
            for each in answer.principalGrants or ()
        ]

    def add_member(self, role: str, member: GrantHolder, *, admin_option: bool) -> None:
        """Make a grantee a member of a role."""
        request = self._role_request(ttypes.GrantRevokeType.GRANT, role, member, admin_option)
        self._change(f"grant the role {role} to the {member}", lambda client: client.grant_revoke_role(request))

    def remove_member(self, role: str, member: GrantHolder, *, admin_option_only: bool) -> None:
        """Remove a member of a role, or only its admin option."""
        request = self._role_request(ttypes.GrantRevokeType.REVOKE, role, member, admin_option_only)
        self._change(f"revoke the role {role} from the {member}", lambda client: client.grant_revoke_role(request))

    def grants(self, on: GrantObject | None, to: GrantHolder | None) -> Sequence[AccessGrant]:
        """Return the grants on an object and to a grantee."""
        ref = None if on is None else _ref(on)
        name, kind = (None, None) if to is None else (to.name, _KINDS[to.kind])
        found = self._read("list privileges", lambda client: client.list_privileges(name, kind, ref))
        return [_grant(each) for each in found]

    def grant(self, privileges: Privileges, to: GrantHolder, *, grant_option: bool) -> None:
        """Give privileges, all or none."""
        request = ttypes.GrantRevokePrivilegeRequest(
            requestType=ttypes.GrantRevokeType.GRANT, privileges=_bag(privileges, to, grant_option=grant_option)
        )
        self._change(
            f"grant {_listed(privileges)} to the {to}",
            lambda client: client.grant_revoke_privileges(request),
        )

    def revoke(self, privileges: Privileges, to: GrantHolder, *, grant_option_only: bool, cascade: bool) -> None:
        """Revoke privileges, all or none, or only their grant options."""
        if cascade:
            raise NotSupportedError(
                "Hive's interface has no revocation with CASCADE: use a catalog with 'metastore' = 'rest', or "
                "`interbed metastore revoke --cascade` on the server."
            )
        request = ttypes.GrantRevokePrivilegeRequest(
            requestType=ttypes.GrantRevokeType.REVOKE,
            privileges=_bag(privileges, to, grant_option=grant_option_only),
            revokeGrantOption=grant_option_only,
        )
        self._change(
            f"revoke {_listed(privileges)} from the {to}",
            lambda client: client.grant_revoke_privileges(request),
        )

    def policies(self, on: GrantObject) -> Sequence[AccessPolicy]:
        raise _no_policies(on)

    def set_policy(self, on: GrantObject, policy: AccessPolicy) -> None:
        raise _no_policies(on)

    def drop_policy(self, on: GrantObject, name: str) -> None:
        raise _no_policies(on)

    def _role_request(self, kind: int, role: str, member: GrantHolder, option: bool) -> Any:
        # Without a grantor it is the caller.
        return ttypes.GrantRevokeRoleRequest(
            requestType=kind,
            roleName=role,
            principalName=member.name,
            principalType=_KINDS[member.kind],
            grantorType=ttypes.PrincipalType.USER,
            grantOption=option,
        )

    def _read(self, what: str, call: Callable[[Any], Any]) -> Any:
        try:
            return self._calls.read(call)
        except TException as error:
            raise self._refused(what, error) from error

    def _change(self, what: str, call: Callable[[Any], Any]) -> None:
        try:
            self._calls.change(call)
        except TException as error:
            raise self._refused(what, error) from error

    def _refused(self, what: str, error: TException) -> InterbedError:
        message = f"the metastore {self._uri} refused to {what}: {getattr(error, 'message', None) or error}"
        return InvalidInputError(message) if isinstance(error, _WRONG) else CatalogError(message)


def _no_policies(on: GrantObject) -> NotSupportedError:
    return NotSupportedError(
        f"Hive's interface has no row filters and column masks, as for the {on}: use a catalog with 'metastore' = "
        "'rest', or `interbed metastore policy` on the server."
    )


def _ref(on: GrantObject) -> Any:
    if on.kind not in _OBJECTS:
        raise NotSupportedError(
            f"Hive's interface has no privileges on a {on.kind}: use a catalog with 'metastore' = 'rest', or "
            "`interbed metastore grant` on the server."
        )
    return ttypes.HiveObjectRef(
        objectType=_OBJECTS[on.kind],
        dbName=on.database,
        objectName=on.database if on.kind == "database" else on.name,
        # A list, even an empty one, would mean a column of a partition to Hive's own server.
        partValues=None if on.kind == "column" else [],
        columnName=on.column,
        catName=None if on.kind == "server" else on.catalog,
    )


def _listed(privileges: Privileges) -> str:
    return ", ".join(f"{name} on the {on}" for name, on in privileges)


def _bag(privileges: Privileges, to: GrantHolder, *, grant_option: bool) -> Any:
    return ttypes.PrivilegeBag(
        privileges=[
            ttypes.HiveObjectPrivilege(
                hiveObject=_ref(on),
                principalName=to.name,
                principalType=_KINDS[to.kind],
                grantInfo=ttypes.PrivilegeGrantInfo(
                    privilege=each, grantorType=ttypes.PrincipalType.USER, grantOption=grant_option
                ),
                authorizer="SQL",
            )
            for each, on in privileges
        ]
    )


def _holder(name: str, number: int | None) -> GrantHolder:
    return GrantHolder(kind=next((kind for kind, each in _KINDS.items() if each == number), "user"), name=name)


def _grant(each: Any) -> AccessGrant:
    ref, info = each.hiveObject, each.grantInfo
    kind = next((kind for kind, number in _OBJECTS.items() if number == ref.objectType), "server")
    if kind == "server" and ref.catName:
        kind = "catalog"
    return AccessGrant(
        privilege=info.privilege,
        on=GrantObject(
            kind=kind,
            catalog=ref.catName or None,
            database=ref.dbName if kind != "server" else None,
            name=ref.objectName if kind in ("table", "column") else None,
            column=ref.columnName if kind == "column" else None,
        ),
        to=_holder(each.principalName, each.principalType),
        grant_option=bool(info.grantOption),
        grantor=info.grantor or None,
        granted_at=info.createTime or 0,
    )


READER_POLICIES = "interbed.reader-policies"
"""The parameter: `{"filters": ["city = 'Bonn'"], "masks": {"phone": "NULL"}}`."""


def is_bound(parameters: Mapping[str, str] | None) -> bool:
    """Return whether policies bind the reader of a table with these parameters."""
    return READER_POLICIES in (parameters or {})


def rules_of_parameters(parameters: Mapping[str, str] | None, fields: Sequence[DataField], source: str) -> RowRules:
    """Return the rules of the parameters for the columns of the table.

    CorruptFileError naming their source for texts that are none, NotSupportedError for those that do not fit.
    """
    from interbed.storage.base.predicate.grammar import parse_filter
    from interbed.storage.base.predicate.json import filter_to_paimon, mask_to_paimon
    from interbed.storage.base.predicate.masks import parse_mask

    text = (parameters or {}).get(READER_POLICIES)
    if text is None:
        return RowRules()
    try:
        found = json.loads(text)
        filters, masks = [str(each) for each in found["filters"]], dict(found["masks"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"The answer of {source} has no valid row filters and column masks.") from error
    try:
        return RowRules(
            filters=[filter_to_paimon(parse_filter(each, fields), fields) for each in filters],
            masks={name: mask_to_paimon(parse_mask(str(each), name, fields), fields) for name, each in masks.items()},
        )
    except FilterError as error:
        raise NotSupportedError(
            f"The table cannot be read: a row filter or column mask that {source} has for you does not fit its "
            f"columns any more, and its owner has to set or drop it: {error}"
        ) from error


_CONFIG_KEY, _CONTEXT_KEY = "hive.metastore.interbed.undrop", "interbed.undrop"

_LISTS_KEY, _ID_KEY, _KIND_KEY = "hive.metastore.interbed.dropped", "interbed.undrop.id", "interbed.undrop.kind"

_DROPPED_TYPE = "INTERBED_DROPPED"

_NOT_WHOLLY_PURGED = " is not deleted wholly: see the log of the server"
"""The end of the refusal of a purge that left some files, which the server deletes later."""

_NOT_KEPT = " cannot be kept when it is dropped"
"""The end of the refusal of a drop that would delete the files: nothing was changed."""


class KeptDrops:
    """The dropped tables of one metastore. Safe for many threads."""

    def __init__(self, calls: MetastoreCalls, uri: str) -> None:
        self._calls = calls
        self._uri = uri
        self._answers: weakref.WeakKeyDictionary[Any, dict[str, bool]] = weakref.WeakKeyDictionary()

    def drop_table(self, database: str, name: str) -> bool:
        """Drop a managed table and have it kept with its directory, to be put back. Return False if the metastore
        cannot keep it: nothing was changed then.

        TableNotFoundError; CatalogError for any other refusal, after which the table exists as before.
        """
        environment = ttypes.EnvironmentContext(properties={_CONTEXT_KEY: "keep"})

        def drop(client: Any) -> bool:
            if not self._keeps_tables(client):
                return False
            client.drop_table_with_environment_context(database, name, True, environment)
            return True

        try:
            return self._calls.change(drop)
        except ttypes.NoSuchObjectException as error:
            raise TableNotFoundError(f"Table {database}.{name} does not exist in {self._uri}") from error
        except REFUSALS as error:
            if isinstance(error, ttypes.MetaException) and (error.message or "").endswith(_NOT_KEPT):
                return False
            raise refusal(self._uri, f"drop table {database}.{name}", error) from error

    def undrop_table(self, database: str, name: str, new_name: str | None = None) -> None:
        """Put the latest dropped table of a name back, perhaps under a new one. NotSupportedError unless the metastore
        is interbed's; TableNotFoundError if it has none; TableExistsError.
        """
        names = ttypes.Table(dbName=database, tableName=new_name or name)
        environment = ttypes.EnvironmentContext(properties={_CONTEXT_KEY: name})

        def undrop(client: Any) -> None:
            if not self._keeps_tables(client):
                raise NotSupportedError(
                    f"The metastore {self._uri} keeps no dropped tables: only a server of interbed's puts them back."
                )
            client.create_table_with_environment_context(names, environment)

        try:
            self._calls.change(undrop)
        except ttypes.AlreadyExistsException as error:
            raise TableExistsError(f"Table {database}.{new_name or name} already exists in {self._uri}") from error
        except ttypes.NoSuchObjectException as error:
            raise TableNotFoundError(f"{error.message} ({self._uri})") from error
        except REFUSALS as error:
            raise refusal(self._uri, f"put table {database}.{name} back", error) from error

    def dropped(self, database: str | None) -> list[Mapping[str, Any]]:
        """Return the dropped objects as JSON, the latest first; NotSupportedError unless the metastore lists them."""

        def listed(client: Any) -> list[Any]:
            self._check_lists(client)
            found: list[Any] = client.get_table_meta(database or "*", "*", [_DROPPED_TYPE])
            return found

        try:
            return [json.loads(each.comments) for each in self._calls.read(listed)]
        except (TypeError, ValueError) as error:
            raise CatalogError(f"{self._uri} lists dropped objects in a form of another version: {error}") from error
        except REFUSALS as error:
            raise refusal(self._uri, "list dropped objects", error) from error

    def undrop(self, entry: DroppedEntry, new_name: str | None) -> None:
        """Put the object of a drop back, a table perhaps under a new name.

        TableNotFoundError if it is not kept, TableExistsError, DatabaseExistsError, NotSupportedError.
        """
        own = "" if entry.name is None else new_name or entry.name
        names = ttypes.Table(dbName=entry.database, tableName=own)
        environment = _context(entry, entry.name or "")

        def undrop(client: Any) -> None:
            self._check_lists(client)
            client.create_table_with_environment_context(names, environment)

        try:
            self._calls.change(undrop)
        except ttypes.AlreadyExistsException as error:
            kind = DatabaseExistsError if entry.name is None else TableExistsError
            raise kind(f"{error.message} ({self._uri})") from error
        except ttypes.NoSuchObjectException as error:
            raise TableNotFoundError(f"{error.message} ({self._uri})") from error
        except REFUSALS as error:
            raise refusal(self._uri, f"put {entry.qualified} back", error) from error

    def purge(self, entry: DroppedEntry) -> bool:
        """Delete the object of a drop for good; return whether all of it is deleted. TableNotFoundError."""
        environment = _context(entry, "purge")

        def purge(client: Any) -> None:
            self._check_lists(client)
            client.drop_table_with_environment_context(entry.database, entry.name or "", True, environment)

        try:
            self._calls.change(purge)
        except ttypes.NoSuchObjectException as error:
            raise TableNotFoundError(f"{error.message} ({self._uri})") from error
        except REFUSALS as error:
            if isinstance(error, ttypes.MetaException) and (error.message or "").endswith(_NOT_WHOLLY_PURGED):
                return False
            raise refusal(self._uri, f"purge {entry.qualified}", error) from error
        return True

    def _check_lists(self, client: Any) -> None:
        if not self._has(client, _LISTS_KEY):
            raise NotSupportedError(
                f"The metastore {self._uri} lists no dropped objects: only a server of this version of interbed does."
            )

    def _keeps_tables(self, client: Any) -> bool:
        """Return whether the metastore at the other end of a connection keeps dropped tables."""
        return self._has(client, _CONFIG_KEY)

    def _has(self, client: Any, key: str) -> bool:
        """Return whether the metastore at the end of a connection has a configuration value, which is asked once."""
        known = self._answers.setdefault(client, {})
        if key not in known:
            try:
                known[key] = client.get_config_value(key, "") == "true"
            except TApplicationException as error:
                if error.type != TApplicationException.UNKNOWN_METHOD:
                    raise
                known[key] = False
        return known[key]


def _context(entry: DroppedEntry, value: str) -> Any:
    """Return the environment context of a call about one drop."""
    kind = {_KIND_KEY: "database"} if entry.name is None else {}
    return ttypes.EnvironmentContext(properties={_CONTEXT_KEY: value, _ID_KEY: entry.id, **kind})
