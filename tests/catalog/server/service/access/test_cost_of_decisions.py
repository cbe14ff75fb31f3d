"""The cost of the built-in authorizer, in looks at the database: lists of 100,000 tables, with 10,000 grants."""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer, GrantsTransaction
from interbed.catalog.server.service.access.objects import (
    Access,
    AccessRepository,
    AccessState,
    Caller,
    Grant,
    Grantee,
    OwnedScope,
    Privilege,
    RoleMember,
    SecuredKind,
    SecuredObject,
    database_object,
    role_named,
    table_object,
    user_named,
)

T = TypeVar("T")

TABLES, GRANTS, ROLES = 100_000, 10_000, 100

READS_MAX = 6
"""Looks at the database for one decision about any number of tables."""


class AccessInMemory:
    """Roles, grants and owners in memory, as far as decisions read them. They are their own transaction."""

    def __init__(self, state: AccessState, owned: set[str]) -> None:
        self._state = state
        self._owned = owned
        self.reads = 0
        """Reads of the state and of owners so far."""

    @property
    def access(self) -> AccessRepository:
        """The roles, grants and owners."""
        return cast("AccessRepository", self)

    def read(self, work: Callable[[GrantsTransaction], T]) -> T:
        """Run the function on itself."""
        return work(self)

    def generation(self) -> int:
        """Return the generation of the state."""
        return self._state.generation

    def state(self) -> AccessState:
        """Return the state of grants."""
        self.reads += 1
        return self._state

    def owned_databases(self, owners: Sequence[Grantee]) -> set[tuple[str, str]]:
        """Return no databases at all."""
        self.reads += 1
        return set()

    def databases_with_owned(self, owners: Sequence[Grantee]) -> set[tuple[str, str]]:
        """Return no databases at all."""
        self.reads += 1
        return set()

    def owned_anywhere(self, kind: SecuredKind, owners: Sequence[Grantee]) -> set[tuple[str, str, str]]:
        """Return the owned tables, in one database, whatever the owner."""
        self.reads += 1
        return {("hive", "d7", name) for name in self._owned}

    def owned(self, scope: OwnedScope, owners: Sequence[Grantee]) -> set[str]:
        """Return the owned tables, whatever the owner."""
        self.reads += 1
        return self._owned


def _state() -> AccessState:
    """Return roles with a hundred grants each, on tables and on databases, and a user in half of the roles."""
    grants = [
        Grant(
            id=number,
            privilege=Privilege.SELECT if number % 3 else Privilege.INSERT,
            on=table_object("hive", "lake", f"t_{number * 10}")
            if number % 10
            else database_object("hive", f"d{number}"),
            to=role_named(f"r{number % ROLES}"),
        )
        for number in range(GRANTS)
    ]
    members = [RoleMember(role=f"r{number}", member=user_named("ann")) for number in range(0, ROLES, 2)]
    return AccessState(generation=1, roles=[], members=members, grants=grants)


def _place(number: int) -> SecuredObject:
    return table_object("hive", "lake", f"t_{number * 10}") if number % 10 else database_object("hive", f"d{number}")


def test_a_list_of_100_000_tables_takes_few_looks_at_the_database() -> None:
    access = AccessInMemory(_state(), {f"t_{number}" for number in range(0, TABLES, 50)})
    authorizer = BuiltinAuthorizer(access)
    questions = [Access(None, table_object("hive", "lake", f"t_{number}")) for number in range(TABLES)]
    answers = authorizer.decide(Caller("ann"), questions)
    assert 0 < sum(answers) < TABLES / 5
    first, access.reads = access.reads, 0
    assert authorizer.decide(Caller("ann"), questions) == answers
    assert first <= READS_MAX
    assert access.reads <= READS_MAX


def test_tables_of_many_databases_take_no_look_for_each() -> None:
    access = AccessInMemory(_state(), set())
    questions = [
        Access(None, table_object("hive", f"d{number % 1000}", f"t_{number}")) for number in range(TABLES // 10)
    ]
    BuiltinAuthorizer(access).decide(Caller("ann"), questions)
    assert access.reads <= READS_MAX
