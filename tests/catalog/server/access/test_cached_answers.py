"""Cached answers: of one caller, under its grants, as long as owners and grants stay."""

import pytest

from interbed.catalog.server.database.session import ChangedObject, GenerationChanges
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.events import EventType
from interbed.catalog.server.thrift.edge.cache import AnswerCache, CacheEntry
from interbed.catalog.server.thrift.edge.call import CallOutcome, database_scope, tables_scope
from tests.catalog.server.access.guarded import ORDERS, session_of
from tests.support.grants import GrantsInMemory

CALL = b"get_table sales.orders"


class UndatedAuthorizer:
    """An authorizer that does not say when its decisions change."""

    def decide(self, caller: object, questions: object) -> list[bool]:
        """Allow nothing to any caller."""
        return []


def entry(key: bytes, scope: tuple[str, ...]) -> CacheEntry:
    """Return an entry with any answer."""
    return CacheEntry(key, "get_table", CallOutcome.OK, scope, b"answer")


def test_callers_do_not_share_answers() -> None:
    cache = AnswerCache(1 << 20, AccessGuard(GrantsInMemory()))
    keys = {cache.key_of(CALL, session_of(*who)) for who in (("a",), ("b",), ("a", "g"), ("a", "g", "h"), ("a", "gh"))}
    assert len(keys) == 5
    assert None not in keys
    assert cache.key_of(CALL, session_of("a", "h", "g")) == cache.key_of(CALL, session_of("a", "g", "h"))
    assert AnswerCache(1 << 20).key_of(CALL, session_of(None)) == CALL


def test_a_change_of_grants_makes_the_answers_of_all_callers_invalid() -> None:
    grants = GrantsInMemory()
    cache = AnswerCache(1 << 20, AccessGuard(grants))
    before = cache.key_of(CALL, session_of("a"))
    grants.grant("b", ORDERS, Privilege.SELECT)
    assert cache.key_of(CALL, session_of("a")) != before


def test_nothing_is_kept_for_clients_without_a_principal_or_under_an_authorizer_without_a_generation() -> None:
    assert AnswerCache(1 << 20, AccessGuard(GrantsInMemory())).key_of(CALL, session_of(None)) is None
    assert AnswerCache(1 << 20, AccessGuard(UndatedAuthorizer())).key_of(CALL, session_of("a")) is None


@pytest.mark.parametrize("scope", [database_scope("hive", "sales"), tables_scope("hive", "sales"), ("hive", "*names")])
def test_a_new_owner_of_a_table_changes_the_lists_that_its_callers_see(scope: tuple[str, ...]) -> None:
    cache = AnswerCache(1 << 20, AccessGuard(GrantsInMemory()))
    cache.apply(GenerationChanges(generation=1, touched=None))
    assert cache.keep_entry(entry(b"k", scope), 1)
    names = {"catalog": "hive", "database": "sales", "table": "orders"}
    changed = ChangedObject(type=EventType.ALTER_TABLE, previous=None, **names)
    cache.apply(GenerationChanges(generation=2, touched=[changed]))
    assert cache.find(b"k") is None
