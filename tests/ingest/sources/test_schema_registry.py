"""Schemas from a real registry, through proxies that require credentials and TLS, and with failures of the registry."""

import base64
import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from interbed.ingest.flow.messages import SchemaRegistryError, SourceUnavailableError, UnknownSchemaError
from interbed.ingest.formats.avro.schema import WriterSchema
from interbed.ingest.sources.schema_registry import SchemaRegistry
from interbed.storage.base.errors import InvalidOptionError
from tests.support.certificates import make_certificates
from tests.support.servers.gate import HttpGate, running_gate
from tests.support.servers.ports import free_port
from tests.support.servers.schema_registry import SchemaRegistryServer

SECRET = "open-sesame-23"
BASIC = f"Basic {base64.b64encode(f'reader:{SECRET}'.encode()).decode()}"
PATH = "/apis/ccompat/v7"


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields]}


def read(found: WriterSchema) -> tuple[Any, list[Any]]:
    return json.loads(found.text), [json.loads(each) for each in found.references]


def test_a_schema_is_returned_as_registered(registry: SchemaRegistryServer) -> None:
    schema = record("shop.One", ("id", "int"))
    number = registry.register("one-value", schema)
    assert read(SchemaRegistry(registry.url).schema(number)) == (schema, [])


def test_referenced_schemas_come_before_the_schema(registry: SchemaRegistryServer) -> None:
    city = record("shop.City", ("name", "string"))
    address = record("shop.Address", ("city", "shop.City"), ("other", "shop.City"))
    person = record("shop.Person", ("home", "shop.Address"), ("born", "shop.City"))
    to_city = {"name": "shop.City", "subject": "shop/city", "version": 1}
    to_address = {"name": "shop.Address", "subject": "address", "version": 1}
    registry.register("shop%2Fcity", city)
    registry.register("address", address, [to_city])
    number = registry.register("person", person, [to_address, to_city])
    assert read(SchemaRegistry(registry.url).schema(number)) == (person, [city, address])


def test_an_unregistered_schema_id_is_unknown(registry: SchemaRegistryServer) -> None:
    with pytest.raises(UnknownSchemaError, match="does not have a schema 1999999"):
        SchemaRegistry(registry.url).schema(1_999_999)


def test_a_schema_of_another_kind_is_unknown(registry: SchemaRegistryServer) -> None:
    number = registry.register(
        "as-json", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, kind="JSON"
    )
    with pytest.raises(UnknownSchemaError, match="is one of JSON, and not of Avro"):
        SchemaRegistry(registry.url).schema(number)


def test_an_address_that_is_no_registry_differs_from_an_unknown_schema(registry: SchemaRegistryServer) -> None:
    with pytest.raises(SchemaRegistryError, match="Give --schema-registry the address below which /schemas/ids/ is"):
        SchemaRegistry(f"http://127.0.0.1:{registry.port}/no/such/path").schema(1)


def test_an_unavailable_registry_may_be_asked_again(registry: SchemaRegistryServer) -> None:
    number = registry.register("down-value", record("shop.Down", ("id", "int")))
    schemas = SchemaRegistry(f"http://127.0.0.1:{free_port()}")
    for _ in range(2):
        with pytest.raises(SourceUnavailableError, match=f"does not return a schema {number}.*Connection refused"):
            schemas.schema(number)
    with running_gate(HttpGate(registry.port, answers=[(503, {}), (429, {})])) as gate:
        schemas = SchemaRegistry(f"http://127.0.0.1:{gate.port}{PATH}")
        with pytest.raises(SourceUnavailableError, match="answers 503"):
            schemas.schema(number)
        with pytest.raises(SourceUnavailableError, match="answers 429"):
            schemas.schema(number)
        assert schemas.schema(number).references == ()


def test_the_next_address_is_asked_when_one_does_not_respond(registry: SchemaRegistryServer) -> None:
    number = registry.register("several-value", record("shop.Several", ("id", "int")))
    schemas = SchemaRegistry(f"http://127.0.0.1:{free_port()}, {registry.url}/")
    assert schemas.schema(number) is schemas.schema(number)


def test_a_request_waits_no_longer_than_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        schemas = SchemaRegistry(f"http://127.0.0.1:{silent.getsockname()[1]}", {"timeout": "0.1"})
        with pytest.raises(SourceUnavailableError, match="timed out"):
            schemas.schema(1)


@pytest.mark.parametrize("place", ["setting", "url", "token"])
def test_credentials_are_sent_and_never_shown(
    registry: SchemaRegistryServer, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    number = registry.register("secret-value", record("shop.Secret", ("id", "int")))
    gate = HttpGate(registry.port, authorization=f"Bearer {SECRET}" if place == "token" else BASIC)
    with running_gate(gate):
        user = f"reader:{SECRET}@" if place == "url" else ""
        settings = {
            "setting": {"basic.auth.user.info": f"reader:{SECRET}"},
            "url": {},
            "token": {"bearer.auth.token": SECRET},
        }[place]
        schemas = SchemaRegistry(f"http://{user}127.0.0.1:{gate.port}{PATH}", settings)
        assert schemas.schema(number)
        gate.authorization = "another"
        with pytest.raises(SchemaRegistryError, match="it answers 401") as caught:
            schemas.schema(number + 1)
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r} {schemas.name} {schemas!r} {caplog.text}"


def test_credentials_are_sent_to_no_other_address(registry: SchemaRegistryServer) -> None:
    with running_gate(HttpGate(registry.port)) as other:
        location = {"Location": f"http://127.0.0.1:{other.port}{PATH}/schemas/ids/1"}
        with running_gate(HttpGate(registry.port, answers=[(302, location)])) as gate:
            settings = {"basic.auth.user.info": f"reader:{SECRET}"}
            with pytest.raises(SchemaRegistryError, match="it answers 302"):
                SchemaRegistry(f"http://127.0.0.1:{gate.port}{PATH}", settings).schema(1)
            assert gate.seen == [BASIC]
        assert other.seen == []


def test_an_invalid_response_is_refused(registry: SchemaRegistryServer) -> None:
    with running_gate(HttpGate(registry.port, answers=[(200, {})])) as gate:
        schemas = SchemaRegistry(f"http://127.0.0.1:{gate.port}")
        with pytest.raises(SchemaRegistryError, match="its answer is no schema"):
            schemas.schema(1)


def test_tls_uses_configured_authorities_and_certificates(registry: SchemaRegistryServer, certificates: Path) -> None:
    number = registry.register("tls-value", record("shop.Tls", ("id", "int")))
    server = [f"{certificates}/server.pem", f"{certificates}/server.key"]
    trusting = {"ssl.ca.location": f"{certificates}/ca.pem"}
    known = {
        **trusting,
        "ssl.certificate.location": f"{certificates}/client.pem",
        "ssl.key.location": f"{certificates}/client.key",
    }
    with running_gate(HttpGate(registry.port), tls=server, authority=f"{certificates}/ca.pem") as gate:
        url = f"https://127.0.0.1:{gate.port}{PATH}"
        assert SchemaRegistry(url, known).schema(number)
        for settings in ({}, trusting):
            with pytest.raises(SourceUnavailableError, match=f"does not return a schema {number}"):
                SchemaRegistry(url, settings).schema(number)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create certificates of a server and a client."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("url", "settings", "reason"),
    [
        ("", {}, "needs a URL"),
        ("ftp://host", {}, "begins with http:// or https://"),
        (f"http://reader:{SECRET}@", {}, "begins with http:// or https://"),
        (f"http://reader:{SECRET}@host:port", {}, "begins with http:// or https://"),
        ("http://host?a=b", {}, "has no query in it"),
        ("http://host", {"basic.auth.userinfo": SECRET}, "did you mean basic.auth.user.info"),
        ("http://host", {"oauth": SECRET}, "there are basic.auth.user.info, bearer.auth.token"),
        ("http://host", {"basic.auth.user.info": SECRET}, "is USER:PASSWORD"),
        ("http://host", {"basic.auth.user.info": f"a:{SECRET}", "bearer.auth.token": SECRET}, "not both"),
        ("http://host", {"bearer.auth.token": f"{SECRET}\r\nX: y"}, "character of no token"),
        ("http://host", {"timeout": "soon"}, "number of seconds"),
        ("http://host", {"ssl.key.location": "/no/such"}, "needs ssl.certificate.location"),
        ("http://host", {"ssl.ca.location": "/no/such"}, "No such file"),
    ],
)
def test_invalid_settings_are_refused_without_showing_secrets(url: str, settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=reason) as caught:
        SchemaRegistry(url, settings)
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"
