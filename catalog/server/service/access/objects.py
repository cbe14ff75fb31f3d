"""Privileges, the objects that they are on, roles and grants by the model of Hive's SQL standard based authorization;
policies of tables; and the protocols of authorizers, which decide what a caller may do, and of repositories.

An object lies in its containers: server, catalog, database, then table, view or function, and columns in their table. A
privilege on a container holds for everything in it. On columns only SELECT is granted, as in Hive. The setting
`access_authorizer` chooses an authorizer. One of one's own is a class with a constructor without arguments, by its name
`package.module:Class`.

A grantee is a user, a group or a role. A role has members, which may be roles, and a member with the admin option may
change the members. A grant gives a privilege on an object to a grantee; with the grant option the grantee may give it
to others. Everyone is in the role `public`; the members of the role `admin` may do everything.

Policies of tables are row filters and column masks. A row filter is a condition over columns (docs/sql.md); its readers
see the rows for which it is true. A column mask is an expression whose value they see in place of the column's
(storage/base/predicate/masks.py). A policy binds the callers that it names by user, group or role, without those that
it exempts; the role `public` is everyone. All filters that bind a caller hold together (AND). Of a column, a caller has
one mask: of several that bind it, the first by name.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.catalog.server.service.names import shortened

ADMIN_ROLE = "admin"
PUBLIC_ROLE = "public"
BUILT_IN_ROLES = frozenset((ADMIN_ROLE, PUBLIC_ROLE))

_ROLE_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)
_RESERVED_ROLES = ("all", "default", "none")

GRANTEE_CHARACTERS_MAX = 256
"""Characters in the name of a grantee, as in the name of an authenticated principal."""


class Privilege(StrEnum):
    """Privileges. ALL contains each of the others."""

    USAGE = "USAGE"
    """Use a catalog or a database: see that it exists, with its properties."""
    SELECT = "SELECT"
    """Read rows, and see the metadata, of tables and views."""
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CREATE = "CREATE"
    """Create objects in a container."""
    ALTER = "ALTER"
    DROP = "DROP"
    LOCATION = "LOCATION"
    """Choose directories: create objects at a given location, or move them."""
    ALL = "ALL"


class SecuredKind(StrEnum):
    """Kinds of objects that privileges are on. A view is of the kind of tables."""

    SERVER = "server"
    CATALOG = "catalog"
    DATABASE = "database"
    TABLE = "table"
    FUNCTION = "function"
    COLUMN = "column"


@dataclass(frozen=True, slots=True)
class SecuredObject:
    """An object by its names, in lower case; those that its kind lacks are None. A column without a name is any
    column of its table, in questions and queries.
    """

    kind: SecuredKind
    catalog: str | None = None
    database: str | None = None
    name: str | None = None
    column: str | None = None

    @property
    def container(self) -> "SecuredObject | None":
        """The object that this one lies in; None for the server."""
        match self.kind:
            case SecuredKind.SERVER:
                return None
            case SecuredKind.CATALOG:
                return SERVER
            case SecuredKind.DATABASE:
                return SecuredObject(SecuredKind.CATALOG, self.catalog)
            case SecuredKind.COLUMN:
                return SecuredObject(SecuredKind.TABLE, self.catalog, self.database, self.name)
            case _:
                return SecuredObject(SecuredKind.DATABASE, self.catalog, self.database)

    @property
    def containers(self) -> "tuple[SecuredObject, ...]":
        """All objects that this one lies in, the innermost first."""
        container = self.container
        return () if container is None else (container, *container.containers)

    def __str__(self) -> str:
        if self.kind is SecuredKind.COLUMN:
            column = "columns" if self.column is None else f"column {self.column}"
            return f"{column} of the {self.container}"
        names = [name for name in (self.catalog, self.database, self.name) if name is not None]
        return f"{self.kind} {'.'.join(names)}".rstrip()


SERVER = SecuredObject(SecuredKind.SERVER)


def catalog_object(catalog: str) -> SecuredObject:
    """Return a catalog as an object of privileges."""
    return SecuredObject(SecuredKind.CATALOG, catalog)


def database_object(catalog: str, database: str) -> SecuredObject:
    """Return a database as an object of privileges."""
    return SecuredObject(SecuredKind.DATABASE, catalog, database)


def table_object(catalog: str, database: str, table: str) -> SecuredObject:
    """Return a table or a view as an object of privileges."""
    return SecuredObject(SecuredKind.TABLE, catalog, database, table)


def function_object(catalog: str, database: str, function: str) -> SecuredObject:
    """Return a function as an object of privileges."""
    return SecuredObject(SecuredKind.FUNCTION, catalog, database, function)


def column_object(table: SecuredObject, column: str | None) -> SecuredObject:
    """Return a column of a table as an object of privileges; None for any of its columns."""
    return SecuredObject(SecuredKind.COLUMN, table.catalog, table.database, table.name, column)


COLUMN_PRIVILEGES = frozenset((Privilege.SELECT,))
"""Privileges that are granted on columns. Others permit nothing there, because commits do not name columns."""


@dataclass(frozen=True, slots=True)
class Access:
    """A question to an authorizer: may the caller use this privilege on this object?

    `privilege` None asks whether the caller may see the object at all.
    """

    privilege: Privilege | None
    on: SecuredObject


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated principal that a call is made for: its name, and the groups that its credentials have."""

    name: str
    groups: frozenset[str] = field(default_factory=frozenset)


class Authorizer(Protocol):
    """Decides what callers may do. Safe for many threads. It is asked on the thread of the call, outside of
    transactions: an answer should come from memory, or from one short query.
    """

    def decide(self, caller: Caller, questions: Sequence[Access]) -> Sequence[bool]:
        """Return an answer to each question, in their order. May raise AuthorizerUnavailableError: the call is refused
        then, whatever it asks for.

        A privilege on an object holds for everything in it. The owner of an object has all privileges on it and on
        everything in it. A caller sees an object on which, or in which, or on whose container it has a privilege;
        USAGE and CREATE on a container show only the container.
        """
        ...


class AuthorizerUnavailableError(Exception):
    """The authorizer cannot decide at present."""


class GranteeKind(StrEnum):
    """Kinds of grantees, and of the owners of objects."""

    USER = "user"
    GROUP = "group"
    ROLE = "role"


@dataclass(frozen=True, slots=True)
class Grantee:
    """A user, a group or a role. Names of roles are in lower case."""

    kind: GranteeKind
    name: str

    @property
    def key(self) -> str:
        """The text by which the database compares grantees and owners."""
        return f"{self.kind}:{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


PUBLIC = Grantee(GranteeKind.ROLE, PUBLIC_ROLE)


def user_named(name: str) -> Grantee:
    """Return a user as a grantee."""
    return Grantee(GranteeKind.USER, name)


def group_named(name: str) -> Grantee:
    """Return a group as a grantee."""
    return Grantee(GranteeKind.GROUP, name)


def role_named(name: str) -> Grantee:
    """Return a role as a grantee."""
    return Grantee(GranteeKind.ROLE, name.strip().lower())


def grantee_from_key(key: str) -> Grantee:
    """Return the grantee of a text of the database."""
    kind, _, name = key.partition(":")
    return Grantee(GranteeKind(kind), name)


_OWNER_KINDS = {None: GranteeKind.USER, 1: GranteeKind.USER, 2: GranteeKind.ROLE, 3: GranteeKind.GROUP}


def is_grantee_name(name: str) -> bool:
    """Return whether a user or a group may have a name: one that cannot be confused with another."""
    return 0 < len(name) <= GRANTEE_CHARACTERS_MAX and name.isprintable() and name == name.strip()


def role_name_fault(name: str) -> str | None:
    """Return why a new role may not have a name, in lower case; None if it may."""
    if _ROLE_NAME.fullmatch(name) is not None and name not in _RESERVED_ROLES:
        return None
    return (
        f"{shortened(name)} is not a valid role name: it is 1 to 128 letters, digits, underscores, dots and hyphens, "
        f"and not one of {', '.join(_RESERVED_ROLES)}"
    )


def owner_key(name: str | None, kind: int | None) -> str | None:
    """Return the text of an object's owner, by its name and the number of its kind in Hive's interface. None for an
    owner that no principal can be.
    """
    if not name or not is_grantee_name(name) or kind not in _OWNER_KINDS:
        return None
    return Grantee(_OWNER_KINDS[kind], name.lower() if kind == 2 else name).key


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role. `created_at` is in seconds since the epoch."""

    name: str
    created_by: str | None = None
    created_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMember:
    """Membership of a grantee in a role. With the admin option it may change the members of the role."""

    role: str
    member: Grantee
    admin_option: bool = False
    grantor: str | None = None
    granted_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A privilege on an object that a grantee has. `grantor` is the user that gave it; `through` is the grantee by
    whose grant option or ownership the user might do so, None for an administrator: a revocation with CASCADE follows
    it.
    """

    id: int = 0
    privilege: Privilege
    on: SecuredObject
    to: Grantee
    grant_option: bool = False
    grantor: str | None = None
    through: Grantee | None = None
    granted_at: int = 0

    def covers(self, privilege: Privilege) -> bool:
        """Return whether the grant contains a privilege."""
        return self.privilege in (privilege, Privilege.ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessState:
    """All roles, members and grants at a generation, which changes with each change of them, and with each rename and
    removal of an object that has grants.
    """

    generation: int
    roles: Sequence[Role]
    members: Sequence[RoleMember]
    grants: Sequence[Grant]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedScope:
    """Objects of one kind in one database whose owners are looked up; all of them if `names` is None."""

    kind: SecuredKind
    catalog: str
    database: str
    names: Collection[str] | None = None


class AccessRepository(Protocol):
    """Repository of roles and grants. Grants follow their objects: a rename keeps them, a removal removes them."""

    def generation(self) -> int: ...
    def advance(self) -> None:
        """Count a change. Blocks other changes of roles and grants until the end of the transaction."""
        ...

    def state(self) -> AccessState: ...
    def roles(self) -> Sequence[Role]:
        """Return all roles, by name."""
        ...

    def members(self) -> Sequence[RoleMember]:
        """Return the members of all roles, by role, kind and name."""
        ...

    def add_role(self, role: Role) -> bool:
        """Store a new role; False if the name is taken."""
        ...

    def remove_role(self, name: str) -> None:
        """Remove a role with its members, its memberships and its grants."""
        ...

    def put_member(self, member: RoleMember) -> None:
        """Store a member, in place of the same one with other options."""
        ...

    def remove_member(self, role: str, member: Grantee) -> None: ...
    def exists(self, on: SecuredObject) -> bool:
        """Return whether an object exists, which is locked against its removal until the end of the transaction."""
        ...

    def owner(self, on: SecuredObject) -> Grantee | None:
        """Return the owner of an object, None if it has none."""
        ...

    def number(self, on: SecuredObject) -> int | None:
        """Return the number of a table; None for other objects."""
        ...

    def grants(
        self, *, on: SecuredObject | None = None, to: Grantee | None = None, through: Grantee | None = None
    ) -> Sequence[Grant]:
        """Return the grants on an object, to a grantee, and given through a grantee, as far as these are given; the
        oldest first.
        """
        ...

    def put_grant(self, grant: Grant) -> None:
        """Store a grant on an existing object, in place of one of the same grantor with another grant option."""
        ...

    def remove_grants(self, ids: Collection[int]) -> None: ...
    def end_grant_options(self, ids: Collection[int]) -> None:
        """Remove the grant option of some grants."""
        ...

    def owned_databases(self, owners: Collection[Grantee]) -> set[tuple[str, str]]:
        """Return catalog and name of the databases that belong to one of these owners."""
        ...

    def databases_with_owned(self, owners: Collection[Grantee]) -> set[tuple[str, str]]:
        """Return catalog and name of the databases with a table or a function of one of these owners."""
        ...

    def owned(self, scope: OwnedScope, owners: Collection[Grantee]) -> set[str]:
        """Return the names of the objects that belong to one of these owners."""
        ...

    def owned_anywhere(self, kind: SecuredKind, owners: Collection[Grantee]) -> set[tuple[str, str, str]]:
        """Return catalog, database and name of all tables or functions that belong to one of these owners."""
        ...

    def first_owned(self, owner: Grantee) -> SecuredObject | None:
        """Return an object that belongs to an owner, None if there is none."""
        ...


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
