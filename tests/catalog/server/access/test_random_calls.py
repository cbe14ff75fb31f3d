"""Random grants, objects and calls of the services, compared with what the model of grants says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interbed.catalog.server.service.access.objects import (
    SERVER,
    Access,
    Caller,
    Privilege,
    SecuredObject,
    catalog_object,
    database_object,
    table_object,
)
from interbed.catalog.server.service.errors import AccessDeniedError, MetastoreError
from interbed.catalog.server.service.model import MetastorePartition
from tests.catalog.server.access.guarded import STORAGE, GuardedMetastore, guarded_metastore, served

TABLES = (("sales", "orders"), ("hr", "pay"), ("sales", "nix"), ("nix", "nix"))
OBJECTS = (
    SERVER,
    catalog_object("hive"),
    *(database_object("hive", name) for name in ("sales", "hr", "default")),
    *(table_object("hive", *name) for name in TABLES),
)
CALLS: dict[str, tuple[Privilege, ...] | None] = {
    "get": None,
    "partitions": (Privilege.SELECT,),
    "statistics": (Privilege.SELECT,),
    "add": (Privilege.INSERT, Privilege.ALTER),
    "truncate": (Privilege.DELETE,),
}
EXISTING = TABLES[:2]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedMetastore]:
    """Return a metastore whose grants each example replaces; no example changes it."""
    with guarded_metastore(Path(tmp_path_factory.mktemp("shared"))) as made:
        made.grants.owned_by = lambda _name: set()
        yield made


def outcome(guarded: GuardedMetastore, call: str, key: tuple[str, str]) -> str:
    """Return whether a call is denied, finds nothing, or is carried out."""
    full, metastore = ("hive", *key), guarded.metastore
    try:
        match call:
            case "get":
                metastore.tables.get(*full)
            case "partitions":
                metastore.partitions.names(full)
            case "statistics":
                metastore.statistics.of_table(full, None)
            case "add":
                # It exists: the call is refused by another error, and nothing is changed.
                metastore.partitions.add(full, [MetastorePartition(values=("2026-01-01",), storage=STORAGE)])
            case _:
                metastore.partitions.truncate(full, [])
    except AccessDeniedError:
        return "denied"
    except MetastoreError as error:
        texts = ("not found", "do not exist", "does not exist")
        return "missing" if any(text in str(error) for text in texts) else "done"
    return "done"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    held=st.sets(st.tuples(st.sampled_from(sorted(Privilege)), st.sampled_from(OBJECTS)), max_size=4),
    call=st.sampled_from(sorted(CALLS)),
    key=st.sampled_from(TABLES),
)
def test_a_call_has_the_outcome_that_its_grants_say(
    shared: GuardedMetastore, held: set[tuple[Privilege, SecuredObject]], call: str, key: tuple[str, str]
) -> None:
    shared.grants.grants = {"x": set(held)}
    on, caller, any_of = table_object("hive", *key), Caller(name="x"), CALLS[call]
    sees, *has = shared.grants.decide(caller, [Access(each, on) for each in (None, *(any_of or ()))])
    if sees and any_of is not None and not any(has):
        expected = "denied"
    else:
        expected = "done" if sees and key in EXISTING else "missing"
    with served("x"):
        assert outcome(shared, call, key) == expected
        seen = {name for home in ("sales", "hr") for name in shared.metastore.tables.names("hive", home)}
        databases = set(shared.metastore.databases.names("hive"))
    for database, name in EXISTING:
        visible = shared.grants.decide(caller, [Access(None, table_object("hive", database, name))])[0]
        assert (name in seen) is visible
    for name in ("sales", "hr", "default"):
        visible = shared.grants.decide(caller, [Access(None, database_object("hive", name))])[0]
        assert (name in databases) is visible
