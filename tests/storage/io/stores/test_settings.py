"""Options of object stores by Paimon's and Hadoop's names, and defaults from the environment."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.base.shown_text import masked
from interbed.storage.io.stores.options import RequestLimits, StoreSettings
from interbed.storage.io.stores.settings import store_settings

ACCOUNT = "c@acct.dfs.core.windows.net"
OAUTH = "fs.azure.account.oauth"
KEY = {"s3.access-key": "A", "s3.secret-key": "S"}


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


def credentials(settings: StoreSettings) -> Any:
    assert settings.credentials is not None
    return settings.credentials()


@pytest.mark.parametrize(
    "options",
    [
        {
            **KEY,
            "s3.session-token": "T",
            "s3.region": "eu-1",
            "s3.endpoint": "http://h:1",
            "s3.path.style.access": "true",
        },
        {
            "fs.s3a.access.key": "A",
            "fs.s3a.secret.key": "S",
            "fs.s3a.session.token": "T",
            "fs.s3a.endpoint.region": "eu-1",
            "fs.s3a.endpoint": "http://h:1",
            "fs.s3a.connection.maximum": "100",
        },
        {
            "s3.access.key": "A",
            "s3.secret.key": "S",
            "s3.session.token": "T",
            "s3.endpoint.region": "eu-1",
            "s3.endpoint": "h:1",
            "s3.connection.ssl.enabled": "false",
        },
        {
            "hadoop.fs.s3a.access.key": "A",
            "hadoop.fs.s3a.secret.key": "S",
            "hadoop.fs.s3a.session.token": "T",
            "hadoop.fs.s3a.endpoint.region": "eu-1",
            "hadoop.fs.s3a.endpoint": "http://h:1",
            "hadoop.fs.s3a.connection.maximum": "100",
            "hadoop.hadoop.security.authentication": "simple",
        },
        {
            "fs.s3.accessKeyId": "A",
            "fs.s3.accessKeySecret": "S",
            "fs.s3.securityToken": "T",
            "fs.s3.region": "eu-1",
            "fs.s3.endpoint": "http://h:1",
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        },
    ],
)
def test_s3_accepts_the_option_names_of_paimon_pypaimon_and_hadoop(options: dict[str, str]) -> None:
    settings = store_settings("s3", "b", options)
    found = credentials(settings)
    assert (found["access_key_id"], found["secret_access_key"], found["token"]) == ("A", "S", "T")
    assert settings.config["endpoint"] == "http://h:1"
    assert settings.config["region"] == "eu-1"
    assert settings.config["virtual_hosted_style_request"] is False
    assert settings.honours_conditions is None
    assert "S" not in repr(settings).replace("StoreSettings", "").replace("S3Store", "")


def test_only_aws_is_known_to_honour_conditional_puts() -> None:
    assert store_settings("s3", "b", KEY).honours_conditions is True
    assert store_settings("s3", "b", {"s3.endpoint": "https://s3.eu-west-1.amazonaws.com"}).honours_conditions is True
    assert store_settings("s3", "b", {"s3.endpoint": "https://amazonaws.com.example.org"}).honours_conditions is None


@pytest.mark.parametrize(
    "endpoint",
    ["http://h:1234567", "http://h:0", "ftp://h", "http://", "http://user:word@h:1", "h:port", "http://[::1"],
)
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"'s3.endpoint' is no address") as refused:
        store_settings("s3", "b", {**KEY, "s3.endpoint": endpoint})
    assert "word" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "unsigned"),
    [({}, True), ({"s3.endpoint": "https://h:1"}, True), ({"s3.endpoint": "http://h:1"}, False)],
)
def test_payloads_are_signed_only_without_tls(options: dict[str, str], unsigned: bool) -> None:
    assert store_settings("s3", "b", options).config["unsigned_payload"] is unsigned


def test_a_bucket_may_be_part_of_the_host_name() -> None:
    settings = store_settings("s3", "b", {"s3.endpoint": "https://h:1", "s3.path.style.access": "false"})
    assert settings.config["endpoint"] == "https://b.h:1"
    assert settings.config["virtual_hosted_style_request"] is True


@pytest.mark.parametrize(
    ("scheme", "authority", "options", "named"),
    [
        ("s3", "b", {"s3.acces-key": "A"}, "s3.acces-key"),
        ("s3", "b", {"fs.s3a.acces.key": "A"}, "fs.s3a.acces.key"),
        ("s3", "b", {"s3.access-key": "A"}, "s3.secret-key"),
        ("s3", "b", {"s3.session-token": "A"}, "s3.access-key"),
        ("s3", "b", {"s3.endpoint": "a", "fs.s3a.endpoint": "b"}, "'s3.endpoint' and 'fs.s3a.endpoint' contradict"),
        ("s3", "b", {"s3.path.style.access": "maybe"}, "s3.path.style.access"),
        ("s3", "b", {"s3.conditional-put": "yes"}, "s3.conditional-put"),
        ("s3", "b", {"fs.s3a.retry.limit": "many"}, "fs.s3a.retry.limit"),
        ("s3", "b", {"s3.retry.interval": "soon"}, "'s3.retry.interval'"),
        ("s3", "b", {"s3.retry.limit": "x"}, "'s3.retry.limit'"),
        ("s3", "b", {"fs.s3a.retry.interval": "9" * 20}, "'fs.s3a.retry.interval' is a time up to 1 day"),
        ("s3", "b", {"fs.s3a.retry.interval": "9" * 9999}, "fs.s3a.retry.interval"),
        ("s3", "b", {"fs.s3a.retry.limit": "9" * 9999}, "fs.s3a.retry.limit"),
        ("s3", "b", {"s3.connection.timeout": "0"}, "'s3.connection.timeout'"),
        ("gs", "b", {"fs.gs.http.max.retry": "-1"}, "fs.gs.http.max.retry"),
        ("s3", "b", {"fs.s3a.aws.credentials.provider": "com.shop.Keys"}, "com.shop.Keys"),
        ("s3", "b", {**KEY, "fs.s3a.aws.credentials.provider": "x.AnonymousAWSCredentialsProvider"}, "contradict"),
        ("gs", "b", {"fs.gs.auth.typ": "X"}, "fs.gs.auth.typ"),
        ("gs", "b", {"google.cloud.x": "X"}, "google.cloud.x"),
        ("gs", "b", {"fs.gs.auth.type": "X"}, "COMPUTE_ENGINE"),
        ("gs", "b", {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}, "keyfile"),
        ("abfss", "c", {}, "fs.azure.account.name"),
        ("abfss", ACCOUNT, {"fs.azure.acount.key": "K"}, "fs.azure.acount.key"),
        ("abfss", ACCOUNT, {"fs.azure.account.name": "other"}, "contradict"),
        ("abfss", ACCOUNT, {"fs.azure.account.key": "K", "fs.azure.sas.fixed.token": "T"}, "contradict"),
        ("abfss", ACCOUNT, {"fs.azure.account.auth.type": "SAS"}, "SAS"),
        ("abfss", ACCOUNT, {"fs.azure.account.auth.type": "Magic"}, "SharedKey"),
        ("abfss", ACCOUNT, {f"{OAUTH}2.client.id": "i"}, "client.id' needs .*client.secret' and .*client.endpoint'"),
        ("abfss", ACCOUNT, {f"{OAUTH}2.client.secret": "s"}, "client.secret' needs .*client.id'"),
        ("abfss", ACCOUNT, {f"{OAUTH}2.client.endpoint": "https://h/t"}, "client.endpoint' needs .*client.id'"),
        ("abfss", ACCOUNT, {f"{OAUTH}2.client.id": "i", f"{OAUTH}2.client.secret": "s"}, "needs .*client.endpoint'"),
        ("abfss", ACCOUNT, {f"{OAUTH}.provider.type": "x.ClientCredsTokenProvider"}, "needs .*client.id'"),
        ("abfss", ACCOUNT, {f"{OAUTH}.provider.type": "x.UserPasswordTokenProvider"}, "MsiTokenProvider"),
        (
            "abfss",
            ACCOUNT,
            {"fs.azure.account.key": "K", "fs.azure.account.key.acct.dfs.core.windows.net": "L"},
            "'fs.azure.account.key' and 'fs.azure.account.key.acct.dfs.core.windows.net' contradict",
        ),
        ("s3", "b", {"s3.endpoint": "https://h", "fs.s3a.connection.ssl.enabled": "false"}, "ssl.enabled' contradict"),
        ("s3", "b", {"s3.endpoint": "http://h", "s3.connection.ssl.enabled": "true"}, "ssl.enabled' contradict"),
        (
            "s3",
            "b",
            {"s3.endpoint": "http://h", "hadoop.fs.s3a.endpoint": "http://i"},
            "'hadoop.fs.s3a.endpoint' contr",
        ),
        ("s3", "b", {"hadoop.fs.s3a.acces.key": "A"}, "'hadoop.fs.s3a.acces.key'"),
        ("s3", "b", {"fs.s3.access-key": "A"}, "'fs.s3.access-key'"),
        ("s3", "b", {"fs.s3n.awsAccessKeyId": "A"}, "'fs.s3n.awsAccessKeyId'"),
        ("gs", "b", {"hadoop.fs.gs.auth.typ": "X"}, "'hadoop.fs.gs.auth.typ'"),
        ("abfss", ACCOUNT, {"hadoop.fs.azure.acount.key": "K"}, "'hadoop.fs.azure.acount.key'"),
    ],
)
def test_unknown_and_contradictory_options_are_refused_by_name(
    scheme: str, authority: str, options: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidOptionError, match=named):
        store_settings(scheme, authority, options)


def test_timeouts_and_retries_have_hadoops_option_names() -> None:
    options = {
        "fs.s3a.retry.limit": "3",
        "s3.retry.interval": "20",
        "fs.s3a.connection.timeout": "2s",
        "fs.s3a.connection.establish.timeout": "1500 ms",
        "fs.s3a.connection.request.timeout": "1m",
    }
    assert store_settings("s3", "b", options).limits == RequestLimits(
        retries=3, first_pause_seconds=0.02, read_seconds=2.0, connect_seconds=1.5, request_seconds=60.0
    )
    google = {"fs.gs.http.max.retry": "2", "fs.gs.http.connect-timeout": "100", "fs.gs.http.read-timeout": "200"}
    assert store_settings("gs", "b", google).limits == RequestLimits(retries=2, connect_seconds=0.1, read_seconds=0.2)
    azure = {
        "fs.azure.io.retry.max.retries": "2",
        "fs.azure.io.retry.min.backoff.interval": "7s",
        "fs.azure.io.retry.max.backoff.interval": "9s",
        "fs.azure.http.connection.timeout": "100",
        "fs.azure.http.read.timeout": "200",
    }
    assert store_settings("abfss", ACCOUNT, azure).limits == RequestLimits(
        retries=2, first_pause_seconds=7.0, longest_pause_seconds=9.0, connect_seconds=0.1, read_seconds=0.2
    )
    assert store_settings("s3", "b", {}).limits == RequestLimits()


def test_keys_of_a_profile_are_used_when_there_are_no_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text("[profile work]\nregion = eu-2\n[profile login]\nsso_session = x\n")
    (tmp_path / ".aws/credentials").write_text("[work]\naws_access_key_id = P\naws_secret_access_key = Q\n")
    assert store_settings("s3", "b", {}).credentials is None
    monkeypatch.setenv("AWS_PROFILE", "work")
    settings = store_settings("s3", "b", {})
    assert settings.config["region"] == "eu-2"
    found = credentials(settings)
    assert (found["access_key_id"], found["secret_access_key"]) == ("P", "Q")
    assert found["expires_at"] is not None
    assert credentials(store_settings("s3", "b", KEY))["access_key_id"] == "A"
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StorageAccessError, match="nobody"):
        store_settings("s3", "b", {})


def test_google_is_opened_with_a_key_file_or_by_the_environment() -> None:
    named = {"google.cloud.auth.service.account.json.keyfile": "/k.json", "fs.gs.project.id": "p"}
    assert store_settings("gs", "b", named).config == {"service_account": "/k.json"}
    assert store_settings("gs", "b", {"fs.gs.auth.type": "APPLICATION_DEFAULT"}).config == {}
    assert store_settings("gs", "b", {"fs.gs.auth.type": "UNAUTHENTICATED"}).config == {"skip_signature": True}
    assert store_settings("gs", "b", {}).honours_conditions is True
    token = {"fs.gs.auth.access.token": "T", "fs.gs.auth.access.token.expires-at": "1580702706000"}
    found = store_settings("gs", "b", token)
    assert credentials(found) == {"token": "T", "expires_at": None}
    assert (found.ended, found.renews, set(found.secrets)) == ("2020-02-03T04:05:06Z", False, {"T"})
    assert "the option 'fs.gs.auth.access.token'" in found.source
    for wrong in (
        {**token, "fs.gs.auth.type": "COMPUTE_ENGINE"},
        {"fs.gs.auth.access.token.expires-at": "1"},
        {**token, "fs.gs.auth.access.token.expires-at": "soon"},
        {"fs.gs.auth.access.token": "a\nb"},
    ):
        with pytest.raises(InvalidOptionError, match=r"fs\.gs\.auth\.access\.token"):
            store_settings("gs", "b", wrong)


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ("2020-02-03T04:05:06Z", "2020-02-03T04:05:06Z"),
        ("2020-02-03T04:05Z", "2020-02-03T04:05:00Z"),
        ("2020-02-03", "2020-02-03T00:00:00Z"),
        ("2999-01-01", ""),
        ("soon", ""),
        ("", ""),
    ],
)
def test_a_shared_access_signature_has_an_expiry_time(said: str, ended: str) -> None:
    signature = f"?sv=1&se={quote(said)}&sig=x"
    assert store_settings("abfss", ACCOUNT, {"fs.azure.sas.fixed.token": signature}).ended == ended


def test_azure_is_opened_with_the_settings_of_its_account() -> None:
    options = {
        "fs.azure.account.key.acct.dfs.core.windows.net": "K",
        "fs.azure.account.key.other.dfs.core.windows.net": "O",
    }
    settings = store_settings("abfss", ACCOUNT, options)
    assert settings.bucket == "c"
    assert settings.config == {"account_name": "acct", "account_key": "K"}
    assert settings.honours_conditions is True
    blob = "c@acct.blob.core.windows.net"
    sas = store_settings("wasbs", blob, {"fs.azure.sas.c.acct.blob.core.windows.net": "?sv=1"})
    assert sas.config["sas_key"] == "sv=1"
    assert (sas.end, sas.ended) == (None, "")
    oauth = {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth2.client.id": "i",
        "fs.azure.account.oauth2.client.secret": "s",
        "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
    }
    config = store_settings("abfss", ACCOUNT, oauth).config
    assert (config["tenant_id"], config["authority_host"]) == ("tenant", "https://login.microsoftonline.com")
    china = store_settings("abfss", "c@acct.dfs.core.chinacloudapi.cn", {})
    assert china.config["endpoint"] == "https://acct.blob.core.chinacloudapi.cn"
    assert store_settings("abfs", "c", {"fs.azure.account.name": "acct"}).config == {"account_name": "acct"}


@pytest.mark.parametrize(
    "more",
    [
        {"fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"},
        {"hadoop.fs.azure.account.oauth2.msi.tenant": "t"},
        {"fs.azure.account.oauth.provider.type.acct.dfs.core.windows.net": "x.WorkloadIdentityTokenProvider"},
    ],
)
def test_a_managed_identity_needs_a_client_id_only(more: dict[str, str]) -> None:
    settings = store_settings("abfss", ACCOUNT, {f"{OAUTH}2.client.id": "i", **more})
    assert settings.config["client_id"] == "i"


def test_a_workload_identity_gets_its_token_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", "/token")
    assert store_settings("abfss", ACCOUNT, {f"{OAUTH}2.client.id": "i"}).config["client_id"] == "i"


def test_options_of_azure_and_google_have_paimons_names_too() -> None:
    key = {"hadoop.fs.azure.account.key.acct.dfs.core.windows.net": "K"}
    settings = store_settings("abfss", ACCOUNT, key)
    assert settings.config["account_key"] == "K"
    assert settings.given == {"key": "hadoop.fs.azure.account.key.acct.dfs.core.windows.net"}
    named = {"hadoop.google.cloud.auth.service.account.json.keyfile": "/k.json"}
    assert store_settings("gs", "b", named).config == {"service_account": "/k.json"}


@pytest.mark.parametrize(
    "name",
    [
        "s3.secret-key",
        "hadoop.fs.s3a.secret.key",
        "fs.s3.accessKeySecret",
        "fs.s3.securityToken",
        "s3.session-token",
        "fs.s3a.secret.key",
        "fs.s3a.session.token",
        "fs.azure.account.key",
        "fs.azure.account.key.acct.dfs.core.windows.net",
        "fs.azure.sas.fixed.token",
        "fs.azure.sas.c.acct.blob.core.windows.net",
        "fs.azure.account.oauth2.client.secret",
    ],
)
def test_secrets_are_masked_where_options_are_shown(name: str) -> None:
    assert masked(name, "s3cr3t") == "******"
