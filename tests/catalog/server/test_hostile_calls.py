"""Hostile names and locations in every text of every method of Hive's interface: nothing foreign is changed.

Methods are those that are served. A method whose valid call is not carried out has a row in `NOT_CARRIED_OUT`, so that
a new method without useful arguments fails.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.thrift.edge.call import CallOutcome
from tests.catalog.server.hostile_calls import REGISTERED, HostileCalls, hostile_calls, outside, places_of, shares_of
from tests.support.hostile_locations import ProtectedTree, hostile_locations
from tests.support.hostile_names import TABLES
from tests.support.sandbox import LEADS_OUT
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = [pytest.mark.attack("paths and links"), pytest.mark.longer]

NAMES_A_METHOD = len(TABLES) if LONG else 6
LOCATIONS_A_METHOD = 300 if LONG else 6

NOT_CARRIED_OUT = frozenset(
    [
        "add_foreign_key",
        "cancel_delegation_token",
        "check_lock",
        "create_type",
        "delete_column_statistics_req",
        "delete_partition_column_statistics",
        "delete_table_column_statistics",
        "drop_catalog",
        "drop_constraint",
        "drop_type",
        "getMetaConf",
        "get_delegation_token",
        "get_partition_column_statistics",
        "get_principals_in_role",
        "get_scheduled_query",
        "get_table_column_statistics",
        "get_type",
        "grant_revoke_role",
        "grant_role",
        "heartbeat",
        "renew_delegation_token",
        "revoke_privileges",
        "revoke_role",
        "scheduled_query_progress",
        "setMetaConf",
        "update_creation_metadata",
        "update_master_key",
    ]
)
"""Methods whose arguments name what is not there, and those that are always refused."""


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[HostileCalls]:
    """Yield a metastore beside foreign objects."""
    with hostile_calls(ProtectedTree(root=tmp_path / "outer")) as made:
        yield made


def test_the_valid_call_of_each_method_is_carried_out(calls: HostileCalls) -> None:
    refused = {}
    for method in sorted(calls.dispatcher.method_names):
        calls.renew()
        answer = calls.call(method, calls.arguments(method))
        assert answer is not None
        if answer.outcome != CallOutcome.OK:
            refused[method] = str(answer.refusal or answer.reply)
        if not method.startswith("get"):
            calls.drop_all()
    assert refused.keys() == NOT_CARRIED_OUT, refused


def test_hostile_names_in_every_text_of_every_method(
    calls: HostileCalls, tally: Tally, caplog: pytest.LogCaptureFixture
) -> None:
    sent = places = 0
    before = calls.tree.entries()
    caplog.set_level(logging.ERROR)
    for shift, method in enumerate(sorted(calls.dispatcher.method_names)):
        texts = [each for each in places_of(calls.arguments(method)) if not each.is_location]
        names = [TABLES[(shift + number * 37) % len(TABLES)] for number in range(NAMES_A_METHOD)]
        calls.renew()
        for place, name in shares_of(texts, names):
            arguments = calls.arguments(method)
            place.put(arguments, name)
            answer = calls.call(method, arguments)
            if answer is not None:
                sent += 1
                if answer.outcome == CallOutcome.OK and not method.startswith("get"):
                    calls.renew()
        calls.drop_all()
        places += len(texts)
        after = calls.tree.entries()
        missing = {path: held for path, held in before.items() if after.get(path) != held}
        assert not missing, (method, missing)
        assert outside(calls.tree, after) == outside(calls.tree, before), method
        assert calls.metastore.tables.names("hive", "keep") == ["a"], method
    assert not caplog.records, caplog.text
    tally("texts of methods that take hostile names", places)
    tally("hostile names sent to methods", sent)


def test_hostile_locations_in_every_location_of_every_method(
    calls: HostileCalls, tally: Tally, caplog: pytest.LogCaptureFixture
) -> None:
    sent = accepted = places = 0
    before = calls.tree.entries()
    locations = hostile_locations(calls.tree, REGISTERED)
    assert len(locations) >= 300
    caplog.set_level(logging.ERROR)
    for shift, method in enumerate(sorted(calls.dispatcher.method_names)):
        texts = [each for each in places_of(calls.arguments(method)) if each.is_location]
        tried = [locations[(shift + number * 41) % len(locations)] for number in range(LOCATIONS_A_METHOD)]
        for place, location in shares_of(texts, tried):
            calls.renew()
            arguments = calls.arguments(method)
            place.put(arguments, location)
            answer = calls.call(method, arguments)
            if answer is None:
                continue
            sent += 1
            if answer.outcome == CallOutcome.OK:
                accepted += 1
                calls.drop_all()
                after = calls.tree.entries()
                missing = {path: held for path, held in before.items() if after.get(path) != held}
                assert not missing, (method, place.name, location, missing)
        places += len(texts)
    calls.drop_all()
    after = calls.tree.entries()
    assert not {path: held for path, held in before.items() if after.get(path) != held}
    assert calls.metastore.databases.names("hive") == ["default", "keep"]
    unexpected = [each for each in caplog.records if LEADS_OUT not in each.getMessage() + str(each.exc_info)]
    assert not unexpected, caplog.text
    assert accepted
    tally("locations of methods that take hostile locations", places)
    tally("hostile locations sent to methods", sent)
