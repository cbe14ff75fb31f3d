"""The built-in authorizer against a model of it: random roles, grants, owners, objects and questions."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.catalog.server.database.session import SqlRepository, SqlTransaction
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.objects import (
    PUBLIC,
    SERVER,
    Access,
    AccessRepository,
    Caller,
    Grant,
    Grantee,
    Privilege,
    Role,
    RoleMember,
    SecuredKind,
    SecuredObject,
    catalog_object,
    column_object,
    database_object,
    grantee_from_key,
    table_object,
)
from interbed.catalog.server.service.model import (
    MetastoreCatalog,
    MetastoreColumn,
    MetastoreDatabase,
    MetastoreTable,
    StorageDescriptor,
)
from tests.support.databases import open_migrated

DATABASES, TABLES, ROLES, USERS = ("d1", "d2"), ("t1", "t2"), ("r1", "r2", "r3"), ("u1", "u2")
WIDE = table_object("hive", "d1", "t1")
COLUMNS = [column_object(WIDE, name) for name in ("a", "b")]
OBJECTS = [
    SERVER,
    catalog_object("hive"),
    *(database_object("hive", each) for each in DATABASES),
    *(table_object("hive", database, table) for database, table in product(DATABASES, TABLES)),
    *COLUMNS,
]
ANY_COLUMNS = [column_object(WIDE, None), column_object(table_object("hive", "d2", "t2"), None)]
GRANTEES = [
    *(grantee_from_key(f"role:{name}") for name in (*ROLES, "admin", "public")),
    *(grantee_from_key(f"user:{name}") for name in USERS),
    grantee_from_key("group:g1"),
]
KINDS = {"user": 1, "role": 2, "group": 3}

members = st.tuples(st.sampled_from([*ROLES, "admin"]), st.sampled_from(GRANTEES)).filter(
    # Roles are members of lower ones alone, so that there is no cycle; the role public is in none.
    lambda each: each[1].kind != "role" or (each[1].name in ROLES and each[1].name < each[0] != "admin")
)
grants = st.tuples(st.sampled_from(list(Privilege)), st.sampled_from(OBJECTS), st.sampled_from(GRANTEES))
owners = st.sampled_from([None, *GRANTEES])


@dataclass(frozen=True, kw_only=True)
class ModelState:
    """Memberships, grants and owners."""

    members: tuple[tuple[str, Grantee], ...]
    grants: tuple[tuple[Privilege, SecuredObject, Grantee], ...]
    owners: tuple[tuple[SecuredObject, Grantee | None], ...]

    def grantees(self, caller: Caller) -> set[Grantee]:
        """Return the grantees of a caller."""
        found = {grantee_from_key(f"user:{caller.name}"), grantee_from_key("role:public")}
        found |= {grantee_from_key(f"group:{group}") for group in caller.groups}
        while more := {grantee_from_key(f"role:{role}") for role, member in self.members if member in found} - found:
            found |= more
        return found

    def held(self, caller: Caller, on: SecuredObject, *, inside: bool = False) -> set[Privilege]:
        """Return the privileges that a caller has on an object, or by it on all objects inside."""
        grantees = self.grantees(caller)
        held = {privilege for privilege, at, to in self.grants if at == on and to in grantees}
        owner = dict(self.owners).get(on)
        if owner == PUBLIC and on.kind is SecuredKind.DATABASE:
            return held if inside else held | {Privilege.USAGE, Privilege.CREATE}
        return held | {Privilege.ALL} if owner in grantees else held

    def permits(self, caller: Caller, question: Access) -> bool:
        """Return the decision, by the words of the contract."""
        if grantee_from_key("role:admin") in self.grantees(caller):
            return True
        on, privilege = question.on, question.privilege
        if on.kind is SecuredKind.COLUMN and privilege is None:
            # The schema of a table is visible, whatever may be read of it.
            assert on.container is not None
            return self.permits(caller, Access(None, on.container))
        own = self.held(caller, on)
        if on.kind is SecuredKind.COLUMN and on.column is None:
            own = own.union(*(self.held(caller, each) for each in COLUMNS if each.container == on.container))
        above = set[Privilege]().union(*(self.held(caller, each, inside=True) for each in on.containers))
        if privilege is not None:
            return not {privilege, Privilege.ALL}.isdisjoint(own | above)
        if own or above - {Privilege.USAGE, Privilege.CREATE}:
            return True
        return any(on in each.containers and self.held(caller, each) for each in OBJECTS)


@st.composite
def worlds(draw: st.DrawFn) -> ModelState:
    """Return random states of the model."""
    owned = [each for each in OBJECTS if each.kind in (SecuredKind.DATABASE, SecuredKind.TABLE)]
    return ModelState(
        members=tuple(draw(st.lists(members, max_size=5, unique=True))),
        grants=tuple(draw(st.lists(grants, max_size=6))),
        owners=tuple((each, draw(owners)) for each in owned),
    )


def _store(transaction: SqlTransaction, world: ModelState) -> None:
    access: AccessRepository = transaction.access
    for known in access.roles():
        access.remove_role(known.name)
    for role in (*ROLES, "admin", "public"):
        access.add_role(Role(name=role))
    access.remove_grants([each.id for each in access.grants()])
    for name in DATABASES:
        stored = transaction.databases.find("hive", name)
        if stored is not None:
            for table in transaction.tables.names("hive", name):
                found = transaction.tables.find("hive", name, table)
                assert found is not None
                transaction.tables.remove(found.id)
            transaction.databases.remove(stored.id)
    if transaction.catalogs.find("hive") is None:
        transaction.catalogs.add(MetastoreCatalog(name="hive", location="file:/nowhere"))
    for on, owner in sorted(world.owners, key=lambda each: each[0].kind):
        owner_name, kind = (None, None) if owner is None else (owner.name, KINDS[owner.kind])
        if on.kind is SecuredKind.DATABASE:
            assert on.database is not None
            transaction.databases.add(MetastoreDatabase(name=on.database, owner_name=owner_name, owner_type=kind))
            continue
        database = transaction.databases.find("hive", on.database or "")
        assert database is not None
        new = MetastoreTable(
            database=on.database or "",
            name=on.name or "",
            owner=owner_name,
            extra={} if kind is None else {"ownerType": kind},
            storage=StorageDescriptor(columns=tuple(MetastoreColumn(name=each, type="int") for each in ("a", "b"))),
        )
        transaction.tables.add(database.id, new)
    for role, member in world.members:
        access.put_member(RoleMember(role=role, member=member))
    for privilege, at, to in world.grants:
        access.put_grant(Grant(privilege=privilege, on=at, to=to))
    access.advance()


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Yield a migrated database."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


def test_decisions_are_those_of_the_model(store: SqlRepository) -> None:
    authorizer = BuiltinAuthorizer(store, clock=iter(range(10**9)).__next__)
    questions = [Access(privilege, on) for privilege, on in product((None, *Privilege), [*OBJECTS, *ANY_COLUMNS])]

    @settings(max_examples=60, deadline=None)
    @given(worlds(), st.sampled_from(USERS), st.sets(st.just("g1")), st.integers(0, 30))
    def check(world: ModelState, user: str, groups: set[str], seed: int) -> None:
        store.write(lambda transaction: _store(transaction, world))
        caller = Caller(user, frozenset(groups))
        answers = authorizer.decide(caller, questions)
        for question, answer in zip(questions, answers, strict=True):
            assert answer == world.permits(caller, question), (question, world.grantees(caller))
        for database in DATABASES:
            tables = [each for each in OBJECTS if each.kind is SecuredKind.TABLE and each.database == database]
            names = [each.name or "" for each in tables]
            seen = authorizer.sees_names(caller, database_object("hive", database), SecuredKind.TABLE, names)
            assert seen == [answers[questions.index(Access(None, each))] for each in tables]
        for number in range(seed, len(questions), 31):
            assert list(authorizer.decide(caller, [questions[number]])) == [answers[number]]

    check()
