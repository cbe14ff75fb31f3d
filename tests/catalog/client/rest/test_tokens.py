"""Token providers of the REST client: Java's vector of a signature, tokens in files, and secrets that stay secret."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.rest.settings import token_provider
from interbed.catalog.client.rest.tokens import (
    BearerTokenFile,
    DlfAuth,
    DlfToken,
    OutgoingRequest,
    authorization,
    dlf_token_of_role,
    signed_headers,
)
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from tests.catalog.client.rest.answering_server import ChosenAnswer, ReceivedRequest, answering_server

GET = OutgoingRequest(method="GET", path="/v1/config", query={"warehouse": "lake"})


def test_a_signature_is_that_of_javas_signer() -> None:
    # The vector of DLFAuthSignatureTest of paimon-core 1.4.2; its body is MockRESTMessage.createDatabaseRequest.
    body = json.dumps({"name": "database", "options": {"a": "b"}}, separators=(",", ":"))
    request = OutgoingRequest(method="POST", path="/v1/paimon/databases", query={"k1": "v1", "k2": "v2"}, body=body)
    token = DlfToken(key_id="access-key-id", key_secret="access-key-secret", security_token="securityToken")
    headers = signed_headers(body, datetime(2023, 12, 3, 12, 12, 12, tzinfo=UTC), token.security_token)
    assert authorization(request, token, "cn-hangzhou", headers) == (
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,"
        "Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3"
    )


def test_a_token_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    provider = BearerTokenFile(str(file))
    assert provider.headers(GET)["Authorization"] == "Bearer first"
    # Replaced by a rename, as a program does that rotates tokens.
    (tmp_path / "next").write_text("other")
    os.replace(tmp_path / "next", file)
    assert provider.headers(GET)["Authorization"] == "Bearer other"
    assert provider.redacted("refused: other") == "refused: ******"
    file.write_text("")
    with pytest.raises(InvalidOptionError, match="is empty"):
        provider.headers(GET)
    file.unlink()
    with pytest.raises(InvalidOptionError, match="can't be read: FileNotFoundError"):
        provider.headers(GET)


def test_a_token_of_dlf_is_loaded_again_an_hour_before_it_expires() -> None:
    now = [1_000_000.0]
    loaded: Iterator[float] = iter([1_010_000.0, 1_020_000.0])
    provider = DlfAuth(
        lambda: DlfToken(key_id=f"key-{now[0]:.0f}", key_secret="s", expires_seconds=next(loaded)),
        "cn-hangzhou",
        clock=lambda: now[0],
    )
    assert "Credential=key-1000000/" in provider.headers(GET)["Authorization"]
    now[0] = 1_006_399.0
    assert "Credential=key-1000000/" in provider.headers(GET)["Authorization"]
    now[0] = 1_006_401.0
    assert "Credential=key-1006401/" in provider.headers(GET)["Authorization"]


@pytest.mark.integration
def test_the_metadata_service_names_the_role_and_its_token() -> None:
    token = {"AccessKeyId": "id", "AccessKeySecret": "hidden", "Expiration": "2026-01-31T12:00:00Z"}

    def answers(asked: ReceivedRequest) -> ChosenAnswer:
        return ChosenAnswer(body=b"my-role" if asked.path == "/roles/" else json.dumps(token).encode())

    with answering_server(answers) as (url, asked):
        found = dlf_token_of_role(f"{url}/roles", None)
        assert (found.key_id, found.key_secret, found.security_token) == ("id", "hidden", None)
        assert found.expires_seconds == datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
        assert [request.path for request in asked] == ["/roles/", "/roles/my-role"]
        assert "hidden" not in repr(found)


def test_a_wrong_token_file_is_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "token.json"
    file.write_text('{"AccessKeySecret": "hidden"')
    options = CatalogOptions(
        {"token.provider": "dlf", "dlf.token-path": str(file), "dlf.region": "cn-hangzhou", "uri": "http://h"}
    )
    with pytest.raises(InvalidOptionError, match="is no token of DLF") as caught:
        token_provider(options).headers(GET)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"needs the option 'token\.provider'"),
        ({"token.provider": "magic"}, "takes bear, dlf or spnego, not 'magic'"),
        ({"token.provider": "bear"}, r"needs one of the options 'token' and 'token\.provider\.path'"),
        ({"token.provider": "bear", "token": "a", "token.provider.path": "b"}, "needs one of"),
        ({"token.provider": "dlf", "dlf.access-key-id": "a", "dlf.access-key-secret": "b"}, "names no region"),
        ({"token.provider": "dlf", "dlf.region": "r", "dlf.access-key-id": "a"}, "'dlf.access-key-secret'"),
        ({"token.provider": "dlf", "dlf.region": "r", "dlf.token-loader": "x"}, "takes ecs or local_file, not 'x'"),
        ({"token.provider": "dlf", "dlf.signing-algorithm": "x"}, "takes default, not 'x'"),
    ],
)
def test_wrong_options_of_a_token_provider_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        token_provider(CatalogOptions({"uri": "http://127.0.0.1:1", **options}))


def test_the_signature_of_the_open_api_is_refused_by_name() -> None:
    options = {"token.provider": "dlf", "uri": "https://dlfnext.cn-hangzhou.aliyuncs.com"}
    with pytest.raises(NotSupportedError, match=r"'dlf\.signing-algorithm' = 'openapi'"):
        token_provider(CatalogOptions(options))


def test_the_region_of_dlf_is_that_of_the_address() -> None:
    options = {
        "token.provider": "dlf",
        "uri": "https://cn-hangzhou-vpc.dlf.aliyuncs.com",
        "dlf.access-key-id": "id",
        "dlf.access-key-secret": "hidden",
    }
    provider = token_provider(CatalogOptions(options))
    assert "/cn-hangzhou/DlfNext/" in provider.headers(GET)["Authorization"]
    assert "hidden" not in repr(CatalogOptions(options))
