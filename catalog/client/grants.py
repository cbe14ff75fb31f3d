"""Roles, grants and policies of a catalog's server: their values, and the part of a catalog that changes them.

The model is that of Hive: a grant gives a privilege on an object to a user, a group or a role; a role has members. The
server decides what the caller may change. Objects are written `table sales.orders`, `column sales.orders.id`,
`database sales`, `catalog`, `server` or `function sales.f`, grantees `user ann`, `group etl` or `role readers`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from interbed.catalog.client.identifier import parse_table_name
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, plain_errors

PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "LOCATION", "USAGE", "ALL")
"""Names of the privileges of interbed's server."""

GRANTEE_KINDS = ("user", "group", "role")

_NAMELESS, _OF_DATABASES = ("server", "catalog"), ("table", "function")


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class GrantObject:
    """An object of privileges. `kind` is `server`, `catalog`, `database`, `table` (also for views), `function` or
    `column`, whose `name` is that of its table; `catalog` is its name at the server, None for the catalog that it is
    used with.
    """

    kind: str
    catalog: str | None = None
    database: str | None = None
    name: str | None = None
    column: str | None = None

    @staticmethod
    def parse(text: str) -> "GrantObject":
        """Return the object of a text; raises InvalidInputError."""
        kind, _, name = text.strip().partition(" ")
        kind, name = kind.lower(), name.strip()
        kind = "table" if kind == "view" else kind
        if kind in _NAMELESS and not name:
            return GrantObject(kind=kind)
        if kind == "database" and name and "." not in name:
            return GrantObject(kind=kind, database=name)
        if kind in _OF_DATABASES and name.count(".") == 1:
            parsed = parse_table_name(name)
            return GrantObject(kind=kind, database=parsed.database, name=parsed.table)
        table, _, column = name.rpartition(".")
        if kind == "column" and table.count(".") == 1 and column:
            return GrantObject.parse(f"table {table}").of_columns([column])[0]
        raise InvalidInputError(
            f"{text!r} is not an object of privileges: write 'table database.name', 'column database.table.name', "
            "'function database.name', 'database name', 'catalog' or 'server'."
        )

    def of_columns(self, names: Sequence[str]) -> list["GrantObject"]:
        """Return columns of this table; raises InvalidInputError for an object without columns, and for no name."""
        if self.kind != "table" or not names or not all(each.strip() for each in names):
            raise InvalidInputError(
                f"The {self} has no columns {', '.join(map(repr, names)) or '(none)'}: name those of a table."
            )
        unique = dict.fromkeys(each.strip() for each in names)
        return [replace(self, kind="column", column=each) for each in unique]

    def __str__(self) -> str:
        names = [each for each in (self.catalog, self.database, self.name, self.column) if each is not None]
        return f"{self.kind} {'.'.join(names)}".rstrip()


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class GrantHolder:
    """A user, a group or a role, which `kind` says."""

    kind: str
    name: str

    @staticmethod
    def parse(text: str) -> "GrantHolder":
        """Return the grantee of a text, `role readers`; raises InvalidInputError."""
        kind, _, name = text.strip().partition(" ")
        if kind.lower() not in GRANTEE_KINDS or not name.strip():
            raise InvalidInputError(f"{text!r} is not a grantee: write 'user name', 'group name' or 'role name'.")
        return GrantHolder(kind=kind.lower(), name=name.strip())

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """A privilege on an object that a grantee has. `grantor` is the user that gave it; `granted_at` is in seconds since
    the epoch.
    """

    privilege: str
    on: GrantObject
    to: GrantHolder
    grant_option: bool = False
    grantor: str | None = None
    granted_at: int = 0


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMembership:
    """The membership of a user, a group or a role in a role. With the admin option it may change the members."""

    role: str
    member: GrantHolder
    admin_option: bool = False
    grantor: str | None = None
    granted_at: int = 0


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """A row filter of a table, or the mask of a `column`. It binds the grantees of `to` that are not in `exempt`;
    `created_at` is in seconds since the epoch.
    """

    name: str
    expression: str
    to: tuple[GrantHolder, ...]
    column: str | None = None
    exempt: tuple[GrantHolder, ...] = ()
    created_by: str | None = None
    created_at: int = 0

    @property
    def kind(self) -> str:
        """Return `filter` or `mask`, by whether it has a column."""
        return "filter" if self.column is None else "mask"


Privileges = Sequence[tuple[str, GrantObject]]
"""Names of privileges, each with the object that it is on."""


class GrantCalls(Protocol):
    """Calls to a server about roles, grants and policies. All raise NotSupportedError for a server that keeps none,
    CatalogAccessError or CatalogError for a caller that may not do this, and InvalidInputError for what does not exist.
    """

    def roles(self) -> Sequence[str]: ...
    def current_roles(self) -> Sequence[str]: ...
    def create_role(self, name: str) -> None: ...
    def drop_role(self, name: str) -> None: ...
    def members(self, role: str) -> Sequence[RoleMembership]: ...
    def add_member(self, role: str, member: GrantHolder, *, admin_option: bool) -> None: ...
    def remove_member(self, role: str, member: GrantHolder, *, admin_option_only: bool) -> None: ...
    def grants(self, on: GrantObject | None, to: GrantHolder | None) -> Sequence[AccessGrant]: ...
    def grant(self, privileges: Privileges, to: GrantHolder, *, grant_option: bool) -> None: ...
    def revoke(self, privileges: Privileges, to: GrantHolder, *, grant_option_only: bool, cascade: bool) -> None: ...
    def policies(self, on: GrantObject) -> Sequence[AccessPolicy]: ...
    def set_policy(self, on: GrantObject, policy: AccessPolicy) -> None: ...
    def drop_policy(self, on: GrantObject, name: str) -> None: ...


class CatalogGrants(ABC):
    """The part of a catalog that has the roles, grants and policies of its server; this base class has none."""

    name: str

    @property
    @abstractmethod
    def described(self) -> str:
        """The name of the catalog in messages."""
        ...

    def _grant_calls(self) -> GrantCalls:
        """Return the calls to the server; raises NotSupportedError if it keeps no roles and grants."""
        raise NotSupportedError(
            f"Roles and grants are kept by a catalog server, and {self.described} has none that keeps them: they need "
            "'metastore' = 'hive', or 'rest' with the address of interbed's server, which ends with /paimon."
        )

    def list_roles(self) -> list[str]:
        """Return the roles that the caller sees: all for administrators, for others those that they have.

        Raises NotSupportedError unless the catalog's server keeps roles and grants.
        """
        return list(self._grant_calls().roles())

    def current_roles(self) -> list[str]:
        """Return the roles that the caller has, directly and by other roles; with a REST catalog also by its groups."""
        return list(self._grant_calls().current_roles())

    def create_role(self, role: str) -> None:
        """Create a role; administrators may. Raises InterbedError if it exists."""
        self._grant_calls().create_role(role)

    def drop_role(self, role: str) -> None:
        """Drop a role with its members and grants; administrators may."""
        self._grant_calls().drop_role(role)

    def list_role_members(self, role: str) -> list[RoleMembership]:
        """Return the members of a role."""
        return list(self._grant_calls().members(role))

    def grant_role(self, role: str, *, to: str | GrantHolder, admin_option: bool = False) -> None:
        """Make a user, a group or a role a member of a role: `grant_role("readers", to="user ann")`."""
        self._grant_calls().add_member(role, _holder(to), admin_option=admin_option)

    def revoke_role(self, role: str, *, of: str | GrantHolder, admin_option_only: bool = False) -> None:
        """Remove a member of a role, or only its admin option."""
        self._grant_calls().remove_member(role, _holder(of), admin_option_only=admin_option_only)

    def list_grants(
        self, *, on: str | GrantObject | None = None, to: str | GrantHolder | None = None
    ) -> list[AccessGrant]:
        """Return the grants on an object and to a grantee, as far as these are given and the caller sees them."""
        return list(
            self._grant_calls().grants(None if on is None else _object(on), None if to is None else _holder(to))
        )

    def grant(
        self,
        privileges: str | Sequence[str],
        *,
        on: str | GrantObject,
        to: str | GrantHolder,
        columns: Sequence[str] | None = None,
        grant_option: bool = False,
    ) -> None:
        """Give privileges on an object: `grant(["SELECT", "INSERT"], on="table sales.orders", to="role writers")`; with
        `columns` on these of a table alone, `grant("SELECT", on="table sales.orders", columns=["id"], to="user ann")`.

        Raises InvalidInputError for an unknown privilege, object, role, CatalogError if the caller may not give them.
        """
        given = _with_objects(privileges, on, columns)
        self._grant_calls().grant(given, _holder(to), grant_option=grant_option)

    def revoke(
        self,
        privileges: str | Sequence[str],
        *,
        on: str | GrantObject,
        of: str | GrantHolder,
        columns: Sequence[str] | None = None,
        grant_option_only: bool = False,
        cascade: bool = False,
    ) -> None:
        """Revoke privileges on an object, or on columns of a table, or only their grant options; with `cascade` also
        what was given by them.

        Raises NotSupportedError for `cascade` through Hive's interface, which has no form for it.
        """
        self._grant_calls().revoke(
            _with_objects(privileges, on, columns),
            _holder(of),
            grant_option_only=grant_option_only,
            cascade=cascade,
        )

    def list_policies(self, table: str) -> list[AccessPolicy]:
        """Return the row filters and column masks of a table, by name; for its owner and administrators.

        Raises NotSupportedError unless the catalog's server keeps policies, as with 'metastore' = 'rest'.
        """
        return list(self._grant_calls().policies(_table(table)))

    def set_row_filter(
        self,
        table: str,
        condition: str,
        *,
        to: Sequence[str | GrantHolder] = ("role public",),
        exempt: Sequence[str | GrantHolder] = (),
        name: str = "filter",
    ) -> None:
        """Show only rows of a table for which a condition is true to these grantees, in place of the policy of its
        name: `set_row_filter("sales.orders", "country = 'de'", to=["role analysts"])`.

        Raises InvalidInputError for a condition that does not fit the table, or that readers cannot apply.
        """
        policy = AccessPolicy(name=name, expression=condition, to=_holders(to), exempt=_holders(exempt))
        self._grant_calls().set_policy(_table(table), policy)

    def set_column_mask(
        self,
        table: str,
        column: str,
        expression: str,
        *,
        to: Sequence[str | GrantHolder] = ("role public",),
        exempt: Sequence[str | GrantHolder] = (),
        name: str | None = None,
    ) -> None:
        """Show an expression in place of a column of a table to these grantees, in place of the policy of the name,
        `mask-` and the column by default: `set_column_mask("sales.customers", "phone", "NULL")`.

        Raises InvalidInputError for an expression that does not fit the table, or that readers cannot apply.
        """
        policy = AccessPolicy(
            name=name or f"mask-{column}",
            expression=expression,
            column=column,
            to=_holders(to),
            exempt=_holders(exempt),
        )
        self._grant_calls().set_policy(_table(table), policy)

    def drop_policy(self, table: str, name: str) -> None:
        """Remove a row filter or a column mask of a table by its name. Raises InvalidInputError if there is none."""
        self._grant_calls().drop_policy(_table(table), name)


def _table(name: str) -> GrantObject:
    parsed = parse_table_name(name)
    return GrantObject(kind="table", database=parsed.database, name=parsed.table)


def _holders(given: Sequence[str | GrantHolder]) -> tuple[GrantHolder, ...]:
    return tuple(map(_holder, [given] if isinstance(given, str) else given))


def _object(given: str | GrantObject) -> GrantObject:
    return GrantObject.parse(given) if isinstance(given, str) else given


def _holder(given: str | GrantHolder) -> GrantHolder:
    return GrantHolder.parse(given) if isinstance(given, str) else given


def _with_objects(privileges: str | Sequence[str], on: str | GrantObject, columns: Sequence[str] | None) -> Privileges:
    found = _object(on)
    objects = [found] if columns is None else found.of_columns(columns)
    return [(name, each) for name in _privileges(privileges) for each in objects]


def _privileges(given: str | Sequence[str]) -> list[str]:
    names = [each.strip().upper() for each in (given.split(",") if isinstance(given, str) else given)]
    names = ["ALL" if each == "ALL PRIVILEGES" else each for each in names]
    wrong = [each for each in names if each not in PRIVILEGES]
    if wrong or not names:
        shown = f"{wrong[0]!r} is no privilege" if wrong else "No privilege is given"
        raise InvalidInputError(f"{shown}; there are {', '.join(PRIVILEGES)}.")
    return list(dict.fromkeys(names))
