"""An authorizer in memory: grants as sets, owners as the metastore has them. It is the model of what grants mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from interbed.catalog.server.service.access.authorizer import AuthorizerUnavailableError, Caller
from interbed.catalog.server.service.access.objects import SERVER, Access, Privilege, SecuredKind, SecuredObject
from interbed.catalog.server.service.repository import Repository, Transaction

_CONTAINER_ONLY = frozenset((Privilege.USAGE, Privilege.CREATE))


@dataclass
class GrantsInMemory:
    """Grants by principal or group; `owner_of` returns the owner of an object, None without one."""

    owner_of: Callable[[SecuredObject], str | None] = lambda _object: None
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
        return [
            self._sees(caller, held, each.on) if each.privilege is None else self._has(caller, held, each)
            for each in questions
        ]

    def _has(self, caller: Caller, held: set[tuple[Privilege, SecuredObject]], question: Access) -> bool:
        for on in (question.on, *question.on.containers):
            if self.owner_of(on) == caller.name or {(question.privilege, on), (Privilege.ALL, on)} & held:
                return True
        return False

    def _sees(self, caller: Caller, held: set[tuple[Privilege, SecuredObject]], on: SecuredObject) -> bool:
        above = on.containers
        if any(self.owner_of(each) == caller.name for each in (on, *above)):
            return True
        return any(
            where == on or on in where.containers or (where in above and privilege not in _CONTAINER_ONLY)
            for privilege, where in held
        )


def owners_in(store: Repository) -> Callable[[SecuredObject], str | None]:
    """Return the function that finds the owners of objects in a metastore."""

    def owner_of(on: SecuredObject) -> str | None:
        def work(transaction: Transaction) -> str | None:
            match on.kind:
                case SecuredKind.DATABASE:
                    database = transaction.databases.find(on.catalog or "", on.database or "")
                    return None if database is None else database.value.owner_name
                case SecuredKind.TABLE:
                    table = transaction.tables.find(on.catalog or "", on.database or "", on.name or "")
                    return None if table is None else table.value.owner
                case SecuredKind.FUNCTION:
                    function = transaction.functions.find(on.catalog or "", on.database or "", on.name or "")
                    return None if function is None else function.value.owner_name
                case _:
                    return None

        return store.read(work)

    return owner_of


def administrator(grants: GrantsInMemory, name: str) -> None:
    """Make a principal an administrator."""
    grants.grant(name, SERVER, Privilege.ALL)
