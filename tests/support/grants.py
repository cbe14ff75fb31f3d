"""An authorizer in memory: grants as sets, owners as the metastore has them. It is the model of what grants mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from interbed.catalog.server.service.access.objects import (
    SERVER,
    Access,
    AuthorizerUnavailableError,
    Caller,
    Privilege,
    SecuredKind,
    SecuredObject,
    database_object,
    function_object,
    table_object,
)
from interbed.catalog.server.service.repository import Repository, Transaction

_CONTAINER_ONLY = frozenset((Privilege.USAGE, Privilege.CREATE))


@dataclass
class GrantsInMemory:
    """Grants by principal or group; `owned_by` returns the objects that a principal owns."""

    owned_by: Callable[[str], set[SecuredObject]] = lambda _name: set()
    grants: dict[str, set[tuple[Privilege, SecuredObject]]] = field(default_factory=dict)
    is_available: bool = True
    asked: int = 0
    changes: int = 0

    def grant(self, principal: str, on: SecuredObject, *privileges: Privilege) -> None:
        """Grant privileges to a principal or to a group."""
        self.grants.setdefault(principal, set()).update((each, on) for each in privileges)
        self.changes += 1

    def revoke(self, principal: str) -> None:
        """Take all privileges from a principal."""
        self.grants.pop(principal, None)
        self.changes += 1

    def generation(self) -> int:
        """Return a number that changes with the grants."""
        return self.changes

    def decide(self, caller: Caller, questions: Sequence[Access]) -> Sequence[bool]:
        """Return an answer to each question."""
        if not self.is_available:
            raise AuthorizerUnavailableError("the directory of groups does not answer")
        self.asked += len(questions)
        held = {each for name in (caller.name, *caller.groups) for each in self.grants.get(name, ())}
        held |= {(Privilege.ALL, each) for each in self.owned_by(caller.name)}
        return [_sees(held, each.on) if each.privilege is None else _has(held, each) for each in questions]


def _has(held: set[tuple[Privilege, SecuredObject]], question: Access) -> bool:
    places = {question.on, *question.on.containers}
    if question.on.kind is SecuredKind.COLUMN and question.on.column is None:
        # Any column of the table.
        places |= {on for _, on in held if on.kind is SecuredKind.COLUMN and on.container == question.on.container}
    return any((each, on) in held for on in places for each in (question.privilege, Privilege.ALL))


def _sees(held: set[tuple[Privilege, SecuredObject]], on: SecuredObject) -> bool:
    if on.kind is SecuredKind.COLUMN and on.container is not None:
        # A caller that sees a table sees its columns.
        on = on.container
    above = on.containers
    return any(
        where == on or on in where.containers or (where in above and privilege not in _CONTAINER_ONLY)
        for privilege, where in held
    )


def owned_in(store: Repository) -> Callable[[str], set[SecuredObject]]:
    """Return the function that finds what a principal owns in a metastore."""

    def owned_by(name: str) -> set[SecuredObject]:
        def work(transaction: Transaction) -> set[SecuredObject]:
            found = set()
            for catalog in transaction.catalogs.names():
                for database in transaction.databases.names(catalog):
                    stored = transaction.databases.find(catalog, database)
                    if stored is not None and stored.value.owner_name == name:
                        found.add(database_object(catalog, database))
                    tables = transaction.tables.select(catalog, database)
                    found.update(table_object(catalog, database, each.name) for each in tables if each.owner == name)
                    functions = transaction.functions.select(catalog, database)
                    found.update(
                        function_object(catalog, database, each.name) for each in functions if each.owner_name == name
                    )
            return found

        return store.read(work)

    return owned_by


def administrator(grants: GrantsInMemory, name: str) -> None:
    """Make a principal an administrator."""
    grants.grant(name, SERVER, Privilege.ALL)
