"""Settings of the server: their sources, the precedence of sources, and the errors about wrong values."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from interbed.catalog.server.process.command import server
from interbed.catalog.server.process.opening import undrop_seconds_of
from interbed.catalog.server.setting_kinds import ServerSettingsError
from interbed.catalog.server.settings import SETTINGS, ServerSettings, load
from interbed.catalog.server.shown_settings import shown, warnings_for
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most


def site(directory: Path, **properties: str) -> Path:
    """Write a Hive site with these properties; two underscores replace a dot."""
    path = directory / "hive-site.xml"
    entries = "".join(
        f"<property><name>{name.replace('__', '.')}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    path.write_text(f"<?xml version='1.0'?><configuration>{entries}</configuration>")
    return path


def test_the_defaults_serve_this_machine_only() -> None:
    settings, sources = load(None, {}, {})
    assert settings == ServerSettings()
    assert (settings.host, settings.health_host) == ("127.0.0.1", "127.0.0.1")
    assert set(sources.values()) == {"default"}


def test_later_sources_take_precedence_and_each_value_has_its_source(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('port = 1002\nworkers = 2\nlock_lease_seconds = "2min"\ncache_bytes = "1MB"\n')
    hive = site(tmp_path, hive__metastore__port="1001", hive__txn__timeout="50s", metastore__warehouse__dir="/wh")
    settings, sources = load(
        file, {"INTERBED_SERVER_PORT": "1003", "INTERBED_SERVER_WORKERS": "3"}, {"port": "1004", "db": None}, site=hive
    )
    assert (settings.port, sources["port"]) == (1004, "--port")
    assert (settings.workers, sources["workers"]) == (3, "INTERBED_SERVER_WORKERS")
    assert (settings.lock_lease_seconds, sources["lock_lease_seconds"]) == (120.0, str(file))
    assert settings.cache_bytes == 1 << 20
    assert (settings.warehouse, sources["warehouse"]) == ("/wh", f"{hive} metastore.warehouse.dir")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("lock_lease_seconds", "300", 300.0),
        ("lock_lease_seconds", "500ms", 0.5),
        ("events_ttl_seconds", "1d", 86400.0),
        ("events_ttl_seconds", "2 days", 172800.0),
        ("cache_bytes", "64MiB", 64 << 20),
        ("cache_bytes", "2g", 2 << 30),
        ("cache_bytes", "10b", 10),
        ("health_port", "", None),
        ("log_format", "JSON", "json"),
        ("tls_client_ca", "", None),
    ],
)
def test_values_with_units_and_in_any_case_are_parsed(name: str, text: str, value: object) -> None:
    assert getattr(load(None, {}, {name: text})[0], name) == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("port", "x", "a port from 0 to 65535"),
        ("port", "65536", "a port from 0 to 65535"),
        ("port", "", "a port"),
        ("workers", "0", "from 1"),
        ("lock_lease_seconds", "0", "above 0"),
        ("lock_lease_seconds", "5 parsecs", "above 0"),
        ("cache_bytes", "-1", "a size"),
        ("log_format", "xml", "text or json"),
        ("transport", "sasl", "buffered or framed"),
    ],
)
def test_a_bad_value_is_reported_with_its_source_and_the_allowed_values(name: str, text: str, allowed: str) -> None:
    variable = SETTINGS[name].variable
    with pytest.raises(ServerSettingsError) as caught:
        load(None, {variable: text}, {})
    assert all(part in str(caught.value) for part in (variable, name, allowed))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lock_lease = 5", "did you mean lock_lease_seconds"),
        ("colour = 'red'", "known are host, port"),
        ("[server]\nport = 1", "known are"),
        ("port = true", "a boolean"),
        ("port = [1]", "a list"),
        ("port = 1979-05-27", "a date"),
        ("port = 1\nport = 2", "is not TOML"),
        ("port =", "is not TOML"),
    ],
)
def test_a_bad_file_is_reported_with_the_key(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(content)
    with pytest.raises(ServerSettingsError) as caught:
        load(file, {}, {})
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_file_and_an_unknown_variable_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ServerSettingsError, match="no-such"):
        load(tmp_path / "no-such.toml", {}, {})
    with pytest.raises(ServerSettingsError, match="no-such"):
        load(None, {}, {}, site=tmp_path / "no-such.xml")
    with pytest.raises(ServerSettingsError, match="INTERBED_SERVER_PROT; did you mean INTERBED_SERVER_PORT"):
        load(None, {"INTERBED_SERVER_PROT": "1"}, {})
    load(None, {"INTERBED_SERVER_CONFIG": "x", "INTERBED_OTHER": "y"}, {})


def test_the_address_of_the_database_is_printed_without_its_password() -> None:
    settings, _ = load(None, {}, {"db": "postgresql://me:secret@host/x?sslpassword=hidden&sslmode=require"})
    assert shown(settings)["db"] == "postgresql://me:***@host/x?sslmode=require&sslpassword=***"
    assert shown(ServerSettings(db="me:secret"))["db"] == "***"


def test_a_hive_site_is_read(tmp_path: Path) -> None:
    hive = site(
        tmp_path,
        javax__jdo__option__ConnectionURL="jdbc:postgresql://db.example:5433/hms?ssl=true&amp;user=ignored",
        javax__jdo__option__ConnectionPassword="p@ss/word",
        base="/lake",
        hive__metastore__warehouse__dir="s3a://bucket${base}",
        hive__metastore__uris="thrift://meta1:9183,thrift://meta2:9183",
        metastore__txn__timeout="2m",
        hive__metastore__event__db__listener__timetolive="86400s",
        hive__metastore__server__max__threads="77",
        hive__metastore__thrift__framed__transport__enabled="TRUE",
        hive__metastore__thrift__compact__protocol__enabled="true",
        hive__exec__scratchdir="/tmp/x",
    )
    settings, sources = load(None, {}, {}, site=hive)
    assert settings.db == "postgresql://ignored:p%40ss%2Fword@db.example:5433/hms?sslmode=verify-full"
    assert (settings.warehouse, settings.port, settings.lock_lease_seconds) == ("s3a://bucket/lake", 9183, 120.0)
    assert (settings.events_ttl_seconds, settings.connections_max) == (86400.0, 77)
    assert (settings.transport, settings.protocol) == ("framed", "compact")
    assert sources["port"] == f"{hive} hive.metastore.uris"


def test_the_lifetimes_of_delegation_tokens_are_read_from_a_hive_site(tmp_path: Path) -> None:
    hive = site(
        tmp_path,
        **{
            "hive__cluster__delegation__token__max-lifetime": "14d",
            "metastore__cluster__delegation__token__renew-interval": "12h",
            "hive__cluster__delegation__key__update-interval": "2d",
            "hadoop__rpc__protection": "privacy,integrity",
        },
    )
    settings, sources = load(None, {}, {}, site=hive)
    assert (settings.delegation_max_seconds, settings.delegation_renew_seconds) == (14 * 86400.0, 43200.0)
    assert settings.delegation_key_seconds == 2 * 86400.0
    assert settings.delegation_protection == "integrity,privacy"
    assert sources["delegation_renew_seconds"] == f"{hive} metastore.cluster.delegation.token.renew-interval"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"authentication": "delegation-token"}, "alone"),
        ({"authentication": "token,delegation-token", "delegation_protection": ""}, "no layer"),
        ({"authentication": "token,delegation-token", "delegation_max_seconds": "0"}, "a time above 0"),
    ],
)
def test_delegation_tokens_need_a_mechanism_to_ask_by_and_a_layer(given: dict[str, str], message: str) -> None:
    with pytest.raises(ServerSettingsError, match=message):
        load(None, {}, given)


def test_a_hive_site_in_http_mode_gives_the_http_port(tmp_path: Path) -> None:
    mode = {"metastore__server__thrift__transport__mode": "http", "metastore__server__thrift__http__path": "hms"}
    settings, _ = load(None, {}, {"port": "9084"}, site=site(tmp_path, metastore__thrift__port="9083", **mode))
    assert (settings.port, settings.http_port, settings.http_path) == (9084, 9083, "/hms")
    with pytest.raises(ServerSettingsError, match="both 9083"):
        load(None, {}, {}, site=site(tmp_path, metastore__thrift__port="9083", **mode))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"javax__jdo__option__ConnectionURL": "jdbc:derby:;databaseName=x"}, "derby; interbed uses PostgreSQL"),
        ({"javax__jdo__option__ConnectionURL": "jdbc:mysql://h/d"}, "mysql; interbed uses PostgreSQL"),
        ({"javax__jdo__option__ConnectionURL": "jdbc:postgresql://h/"}, "host:port/database"),
        ({"hive__metastore__sasl__enabled": "true"}, "Kerberos, and has no kerberos.keytab.file"),
        (
            {"hive__metastore__sasl__enabled": "true", "hive__metastore__kerberos__keytab__file": "/k"},
            "Kerberos, and has no kerberos.principal",
        ),
        ({"metastore__authentication": "LDAP"}, "Set `authentication` to ldap with ldap_url"),
        ({"metastore__authentication": "CUSTOM"}, "Set `authentication` to another mechanism"),
        ({"hive__metastore__use__SSL": "true", "hive__metastore__keystore__path": "/k.jks"}, "PEM"),
        ({"hive__metastore__uris": "thrift://host:port"}, "thrift://host:9083"),
        ({"hive__metastore__port": "many"}, "a port from 0"),
        ({"hive__txn__timeout": "long"}, "a time above 0"),
        ({"hive__cluster__delegation__token__max-lifetime": "604800000"}, "has no unit"),
    ],
)
def test_unsupported_properties_of_a_hive_site_are_refused_with_an_alternative(
    tmp_path: Path, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(ServerSettingsError) as caught:
        load(None, {}, {}, site=site(tmp_path, **properties))
    assert message in str(caught.value)
    assert "hive-site.xml" in str(caught.value)


@pytest.mark.parametrize("asked", [{"metastore__authentication": "LDAP"}, {"hive__metastore__sasl__enabled": "true"}])
def test_a_site_with_authentication_is_accepted_if_another_one_is_configured(
    tmp_path: Path, asked: dict[str, str]
) -> None:
    given = {"db": "sqlite:///m.db", "authentication": "token"}
    assert load(None, {}, given, site=site(tmp_path, **asked))[0].authentication == "token"


def test_a_derby_site_is_accepted_if_another_database_is_configured(tmp_path: Path) -> None:
    hive = site(tmp_path, javax__jdo__option__ConnectionURL="jdbc:derby:;databaseName=x")
    assert load(None, {}, {"db": "sqlite:///m.db"}, site=hive)[0].db == "sqlite:///m.db"


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    pem.write_text("")
    keystore = tmp_path / "server.jks"
    signing: dict[str, str | None] = {
        "authentication": "token",
        "http_port": "0",
        "credentials_s3_signing": "on",
        "credentials_s3_region": "us-east-1",
    }
    cases: list[tuple[dict[str, str | None], str]] = [
        ({"tls_certificate": str(pem)}, "tls_certificate needs tls_key"),
        ({"tls_client_ca": str(pem)}, "needs tls_certificate"),
        ({"tls_certificate": str(keystore), "tls_key": str(pem)}, "a Java keystore; a PEM file is wanted"),
        ({"tls_certificate": str(pem), "tls_key": str(tmp_path / "none")}, "cannot be read"),
        ({"port": "9", "health_port": "9"}, "both 9"),
        ({"http_path": "x"}, "slash"),
        ({"iceberg_namespace_separator": "a"}, "one to four of the characters"),
        ({"iceberg_namespace_separator": "_"}, "one to four of the characters"),
        ({"access_authorizer": "builtin"}, "access_authorizer is builtin, which needs authentication"),
        ({"access_authorizer": "a.b:C"}, "access_authorizer is a.b:C, which needs authentication"),
        ({"access_authorizer": "some"}, "it is none, builtin, or a class as package.module:Class"),
        ({"access_admins": "root"}, "only builtin has the role admin"),
        ({"credentials_s3_signing": "on"}, "credentials_s3_signing needs `authentication`"),
        (signing | {"http_port": None}, "credentials_s3_signing needs http_port"),
        (signing | {"credentials_s3_region": None}, "needs credentials_s3_region: a signature is for one region"),
        (signing | {"credentials_s3_endpoint": "https://s/s3"}, "is not an address https://host"),
        (signing | {"credentials_s3_endpoint": "ftp://s"}, "is not an address https://host"),
        ({"credentials_google": "on"}, "credentials_google needs `authentication`"),
        ({"credentials_google_endpoint": "https://g"}, "is set without credentials_google"),
        ({"credentials_azure": "on"}, "credentials_azure needs `authentication`"),
        ({"credentials_azure_endpoint": "https://a"}, "is set without credentials_azure"),
        (
            {
                "authentication": "token",
                "http_port": "0",
                "credentials_azure": "on",
                "credentials_azure_key_endpoint": "http://a",
            },
            "credentials_azure_key_endpoint is not an address https://host",
        ),
        ({"credentials_s3_region": "us-east-1"}, "without credentials_s3_role or credentials_s3_signing"),
    ]
    for arguments, message in cases:
        with pytest.raises(ServerSettingsError, match=message):
            load(None, {}, arguments)
    load(None, {}, {"port": "0", "health_port": "0", "http_port": "0"})
    load(None, {}, signing)


def test_an_open_port_without_authentication_causes_a_warning(tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    assert warnings_for(ServerSettings()) == []
    assert "0.0.0.0 without authentication" in warnings_for(ServerSettings(host="0.0.0.0"))[0]
    tls = ServerSettings(host="0.0.0.0", tls_certificate=pem, tls_key=pem, tls_client_ca=pem)
    assert warnings_for(tls) == []
    assert "0.0.0.0 without authentication" in warnings_for(ServerSettings(host="0.0.0.0", authentication="none"))[0]
    assert "0.0.0.0 without TLS" in warnings_for(ServerSettings(host="0.0.0.0", authentication="token"))[0]
    assert warnings_for(ServerSettings(host="::1", authentication="token")) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "lake.example.org", "127.example.org", "localhost.lake"])
def test_a_port_of_other_machines_needs_authentication_or_an_explicit_refusal_of_it(host: str, tmp_path: Path) -> None:
    with pytest.raises(ServerSettingsError, match=rf"--host: .* listen on {host} without.*--no-authentication"):
        load(None, {}, {"host": host})
    with pytest.raises(ServerSettingsError, match=rf"thrift\.bind\.host: .* listen on {host} without"):
        load(None, {}, {"db": "sqlite:///m.db"}, site=site(tmp_path, metastore__thrift__bind__host=host))
    assert load(None, {}, {"host": host, "authentication": "none"})[0].host == host
    assert load(None, {}, {"host": host, "authentication": "token"})[0].host == host
    shown = CliRunner().invoke(server, ["--host", host, "--no-authentication", "config", "--json"])
    assert json.loads(shown.output)["authentication"] == {"value": "none", "source": "--authentication"}
    assert CliRunner().invoke(server, ["config", "--host", host, "--no-authentication"]).exit_code == 0


def test_no_authentication_goes_with_no_mechanism() -> None:
    with pytest.raises(ServerSettingsError, match="`none` goes with no mechanism"):
        load(None, {}, {"authentication": "token,none"})
    both = CliRunner().invoke(server, ["--no-authentication", "--authentication", "token", "config"])
    assert "exclude each other" in both.output
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"):
        assert load(None, {}, {"host": host})[0].authentication == ""


def test_the_effective_settings_are_printed_with_their_sources(tmp_path: Path) -> None:
    arguments = ["--port", "7", "config", "--db", "postgresql://me:secret@host/x"]
    environ = {"INTERBED_SERVER_WORKERS": "2"}
    text = CliRunner().invoke(server, arguments, env=environ)
    assert text.exit_code == 0, text.output
    lines = {line.split()[0]: line.split()[1:] for line in text.output.splitlines()}
    assert lines["port"] == ["7", "--port"]
    assert lines["workers"] == ["2", "INTERBED_SERVER_WORKERS"]
    assert lines["db"] == ["postgresql://me:***@host/x", "--db"]
    as_json = json.loads(CliRunner().invoke(server, [*arguments, "--json"], env=environ).output)
    assert as_json["port"] == {"value": 7, "source": "--port"}
    assert list(as_json) == list(SETTINGS)


def test_the_program_reports_wrong_settings_on_one_line(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "interbed.catalog.server.process.main"],
        env={**os.environ, "INTERBED_SERVER_PORT": "none"},
        capture_output=True,
        text=True,
        timeout=at_most(60),
        check=False,
        cwd=tmp_path,
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "Error: INTERBED_SERVER_PORT: port cannot be 'none'; allowed is a port from 0 to 65535"
    ]


def test_the_path_of_thrift_is_not_that_of_a_rest_catalog() -> None:
    def loaded(**arguments: str) -> ServerSettings:
        return load(None, {}, arguments)[0]

    for path in ("/iceberg", "/iceberg/thrift", "/paimon"):
        with pytest.raises(ServerSettingsError, match=f"--http-path: http_path is {path}, and /.* is the path"):
            loaded(http_port="0", http_path=path)
        assert loaded(http_path=path).http_path == path
        assert loaded(http_port="0", http_path=path, rest_interfaces="").rest_interfaces == ""
    assert loaded(http_port="0", http_path="/icebergs", rest_interfaces=" Paimon,").rest_interfaces == "paimon"
    assert loaded(rest_interfaces="paimon, iceberg").rest_interfaces == "iceberg,paimon"
    assert loaded().rest_interfaces == "iceberg,paimon,interbed"
    with pytest.raises(ServerSettingsError, match="rest_interfaces cannot be 'hive'; allowed is some of iceberg"):
        loaded(rest_interfaces="hive")
    with pytest.raises(ServerSettingsError, match="without braces"):
        loaded(http_path="/{all}")


def test_dropped_objects_are_kept_for_a_week_unless_there_is_a_trash() -> None:
    assert undrop_seconds_of(ServerSettings()) == 7 * 86400
    assert undrop_seconds_of(ServerSettings(trash_seconds=60.0)) == 0
    assert undrop_seconds_of(ServerSettings(trash_seconds=60.0, undrop_seconds=5.0)) == 5
    assert undrop_seconds_of(ServerSettings(undrop_seconds=0.0)) == 0


def test_kept_drops_in_an_object_store_cause_a_warning() -> None:
    (warning,) = warnings_for(ServerSettings(warehouse="s3a://lake/warehouse", undrop_seconds=60.0))
    assert "undrop_seconds keeps no managed tables in s3a://lake/warehouse" in warning
    assert warnings_for(ServerSettings(warehouse="s3a://lake/warehouse")) == []


def test_a_password_on_the_command_line_causes_a_warning() -> None:
    for url, warns in (
        ("postgresql://ann:pw@h/d", True),
        ("postgresql://h/d?password=pw", True),
        ("postgresql://ann@h/d", False),
        ("sqlite:///a b.db", False),
    ):
        settings, sources = load(None, {}, {"db": url})
        warnings = warnings_for(settings, sources)
        assert any("INTERBED_SERVER_DB" in warning and "PGPASSWORD" in warning for warning in warnings) == warns
        assert "pw" not in "".join(warnings)
        settings, sources = load(None, {"INTERBED_SERVER_DB": url}, {})
        assert warnings_for(settings, sources) == []


def test_the_database_of_an_embedded_server_is_on_no_command_line(tmp_path: Path) -> None:
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, start=subprocess.Popen) as running:
        shown = " ".join(psutil.Process(running.running.process.pid).cmdline())
    assert "metastore.db" not in shown


def test_warehouses_without_a_metastore_have_names_and_places_of_their_own() -> None:
    given = {"http_port": "0", "warehouse": "/data/hive"}
    found = load(None, {}, {**given, "paimon_warehouses": " Lake = /data/lake , b=s3://b/c"})[0].paimon_warehouses
    assert found == "lake=/data/lake,b=s3://b/c"
    for text in ("lake", "=/data/lake", "lake=", "a.b=/data/lake", "a=/x,A=/y"):
        with pytest.raises(ServerSettingsError, match=r"paimon_warehouses cannot be .*; allowed is NAME=LOCATION"):
            load(None, {}, {**given, "paimon_warehouses": text})
    for text in ("a=/data", "a=/data/hive", "a=file:///data/hive/x", "a=/x,b=/x/y"):
        with pytest.raises(ServerSettingsError, match="a table would be in both"):
            load(None, {}, {**given, "paimon_warehouses": text})
    with pytest.raises(ServerSettingsError, match="hive is the name of the metastore's catalog"):
        load(None, {}, {**given, "paimon_warehouses": "Hive=/data/lake"})
    with pytest.raises(ServerSettingsError, match="s3://…@b has a user or a key in it"):
        load(None, {}, {**given, "paimon_warehouses": "a=s3://key:secret@b/c"})
    for fewer in ({"warehouse": "/data/hive"}, {**given, "rest_interfaces": "iceberg"}):
        with pytest.raises(ServerSettingsError, match="set http_port, and leave paimon in rest_interfaces"):
            load(None, {}, {**fewer, "paimon_warehouses": "a=/data/lake"})


def test_iceberg_metadata_are_on_the_file_system_of_the_warehouse() -> None:
    arguments = {"iceberg_metadata_root": "s3://made/here"}
    with pytest.raises(ServerSettingsError, match="another file system than the warehouse"):
        load(None, {}, arguments)
    assert load(None, {}, {**arguments, "warehouse": "s3://made/lake"})[0].iceberg_metadata_root == "s3://made/here"


KERBEROS = {"authentication": "kerberos", "kerberos_keytab": "/k", "kerberos_principal": "hive/_HOST@R"}


def test_a_site_with_kerberos_gives_its_settings(tmp_path: Path) -> None:
    asked = {
        "hive__metastore__sasl__enabled": "true",
        "hive__metastore__kerberos__keytab__file": "/etc/hive.keytab",
        "metastore__kerberos__principal": "hive/_HOST@R",
        "hadoop__security__auth_to_local": "\n  RULE:[1:$1]\n  DEFAULT\n",
        "hadoop__rpc__protection": "privacy",
        "hadoop__proxyuser__hue__hosts": "10.0.0.0/8,hue",
        "hadoop__proxyuser__hue__users": "*",
    }
    hive = site(tmp_path, **asked)
    settings, sources = load(None, {}, {}, site=hive)
    assert settings.authentication == "delegation-token,kerberos"
    assert (settings.kerberos_keytab, settings.kerberos_principal) == (Path("/etc/hive.keytab"), "hive/_HOST@R")
    assert settings.kerberos_auth_to_local == "RULE:[1:$1] DEFAULT"
    assert settings.kerberos_protection == "privacy"
    assert settings.proxy_users == "hue.hosts=10.0.0.0/8,hue; hue.users=*"
    assert sources["authentication"] == f"{hive} hive.metastore.sasl.enabled"
    # Another source names the mechanisms, and the site has their settings.
    both = load(None, {}, {"authentication": "kerberos,token"}, site=hive)[0]
    assert (both.authentication, both.kerberos_keytab) == ("token,kerberos", Path("/etc/hive.keytab"))
    other = load(None, {}, {"authentication": "token"}, site=hive)[0]
    assert (other.kerberos_keytab, other.proxy_users) == (None, None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kerberos_keytab": ""}, "authentication by kerberos needs kerberos_keytab"),
        ({"kerberos_principal": ""}, "authentication by kerberos needs kerberos_principal"),
        ({"kerberos_principal": "hive@R"}, "not of the form service/host@REALM"),
        ({"kerberos_principal": "hive/h"}, "not of the form service/host@REALM"),
        ({"kerberos_http_principal": "HTTP/a/b@R"}, "kerberos_http_principal is HTTP/a/b@R, and is not"),
        ({"kerberos_auth_to_local": "nothing"}, "kerberos_auth_to_local: 'nothing' is no rule"),
        ({"kerberos_protection": ""}, "no layer, so that no client could connect"),
        ({"kerberos_protection": "auth-conf"}, "some of authentication, integrity, privacy"),
        ({"authentication": "token"}, "kerberos_keytab is set, and authentication has no kerberos"),
        ({"proxy_users": "hue.rights=*"}, "is not service.hosts"),
        ({"proxy_users": "hue.hosts=*;hue.groups=etl"}, "hue.groups of proxy_users needs user_groups"),
    ],
)
def test_settings_of_kerberos_that_cannot_be_meant_are_refused(changed: dict[str, str], message: str) -> None:
    with pytest.raises(ServerSettingsError) as caught:
        load(None, {}, {**KERBEROS, **changed})
    assert message in str(caught.value)


def test_settings_of_kerberos_are_accepted() -> None:
    proxies = {"proxy_users": "hue.hosts=*;hue.groups=etl", "user_groups": "system"}
    assert load(None, {}, {**KERBEROS, **proxies})[0].user_groups == "system"
    assert load(None, {}, {**KERBEROS, "proxy_users": "hue.hosts=*;hue.groups=*"})[0].user_groups == "none"
    with pytest.raises(ServerSettingsError, match="does not know its services"):
        load(None, {}, {"proxy_users": "hue.hosts=*;hue.users=*"})


def test_kerberos_beyond_loopback_warns_of_what_can_be_read() -> None:
    def warned(**further: Any) -> list[str]:
        return warnings_for(ServerSettings(host="0.0.0.0", authentication="kerberos", **further))

    assert "but for those of Thrift's port whose clients choose privacy" in warned()[0]
    assert warned(kerberos_protection="privacy") == []
    assert "without TLS" in warned(kerberos_protection="privacy", http_port=8181)[0]
