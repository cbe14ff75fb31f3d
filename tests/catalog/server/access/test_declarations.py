"""Every public method of every service declares what it needs."""

import inspect
from collections.abc import Iterator

import pytest

from interbed.catalog.server.service.access.secured import SecuredService, declaration_of
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.access.guarded import GuardedMetastore


def undeclared(service: SecuredService) -> Iterator[str]:
    """Yield the public methods of a service without a declaration."""
    for name, method in inspect.getmembers(type(service), inspect.isfunction):
        if not name.startswith("_") and name != "secure" and declaration_of(method) is None:
            yield f"{type(service).__name__}.{name}"


def test_every_public_method_of_every_service_declares_what_it_needs(guarded: GuardedMetastore) -> None:
    services = guarded.metastore.services
    assert [name for service in services for name in undeclared(service)] == []


def test_every_service_of_the_metastore_is_secured(guarded: GuardedMetastore) -> None:
    # The keys of repeated requests contain the name of the caller.
    not_for_clients = {"access", "config", "guard", "idempotency", "policies", "trash", "warehouse"}
    public = {name for name in vars(guarded.metastore) if not name.startswith("_")} - not_for_clients
    known = {id(service) for service in guarded.metastore.services}
    assert {name for name in public if id(getattr(guarded.metastore, name)) not in known} == set()


def test_a_method_without_a_declaration_is_found() -> None:
    class ForgetfulService(SecuredService):
        def read_everything(self) -> None:
            """Read without a question."""

    assert list(undeclared(ForgetfulService())) == ["ForgetfulService.read_everything"]


def test_a_metastore_without_an_authorizer_asks_nothing(guarded: GuardedMetastore) -> None:
    open_metastore = Metastore(guarded.store, f"file:{guarded.root / 'warehouse'}")
    assert not open_metastore.access.is_on
    guarded.grants.asked = 0
    assert open_metastore.tables.get("hive", "hr", "pay").name == "pay"
    assert guarded.grants.asked == 0


@pytest.mark.parametrize("name", ["get", "drop", "alter"])
def test_declarations_say_what_is_needed(name: str, guarded: GuardedMetastore) -> None:
    found = declaration_of(getattr(type(guarded.metastore.tables), name))
    assert found is not None
    assert {"get": "sees: the table", "drop": "DROP: the table"}.get(name, "ALTER") in found
