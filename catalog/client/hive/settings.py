"""The settings of a Hive catalog, from its options and from `hive-site.xml`; an option wins, as with Paimon.

Names of hive-site.xml are accepted in the form of Hive 2 (`hive.metastore.…`) and of the standalone metastore
(`metastore.…`), and as options of the catalog, too.

The directory of the file is the option `hive-conf-dir`, or the environment variable HIVE_CONF_DIR, as with Paimon. A
property may refer to others, to environment variables and to the user as Hadoop's files do: `${other.key}`,
`${env.HOME}`, `${env.HOME:-default}`, `${user.name}`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from interbed.catalog.client.credentials import ClientCredentials, KerberosLogin, OAuth2Token, server_principal
from interbed.catalog.client.hive.connection import POOL_SIZE, TransportSettings, current_user
from interbed.catalog.client.options import CatalogOptions
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError

TOKEN_VARIABLE = "HMS_JWT"
"""Environment variable in which Hive's clients find a token."""

PROXY_VARIABLE = "HADOOP_PROXY_USER"
"""Environment variable in which Hadoop's clients find the user that they act for, after a login by Kerberos."""

ENVIRONMENT_VARIABLE = "HIVE_CONF_DIR"

_REFERENCE = re.compile(r"\$\{([^{}$]+)\}")
_SUBSTITUTIONS_MAX = 20
"""Hadoop's own bound; it ends circular references."""

DEFAULT_TIMEOUT_SECONDS = 60.0
DEFAULT_LIST_BATCH = 300

_DURATION = re.compile(r"^\s*(\d+)\s*([A-Za-z]*)\s*$")
_SECONDS = {
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "m": 60.0,
    "min": 60.0,
    "minutes": 60.0,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "us": 1e-6,
    "usec": 1e-6,
    "ns": 1e-9,
    "nsec": 1e-9,
}


def read_hive_site(option: str | None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the properties of the `hive-site.xml` that the option or the environment names; none if neither does.

    Raises InvalidOptionError when the file is missing, unreadable or not XML.
    """
    environ = os.environ if environ is None else environ
    named_by = "Option 'hive-conf-dir'" if option else f"The environment variable {ENVIRONMENT_VARIABLE}"
    directory = option or environ.get(ENVIRONMENT_VARIABLE)
    if not directory:
        return {}
    path = Path(directory.removeprefix("file://").removeprefix("file:")) / "hive-site.xml"
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as error:
        raise InvalidOptionError(
            f"{named_by} names {directory}, which has no readable hive-site.xml: {error}"
        ) from error
    except ElementTree.ParseError as error:
        raise InvalidOptionError(f"{path} is not well-formed XML: {error}") from error
    properties: dict[str, str] = {}
    for element in root.iter("property"):
        name, value = element.findtext("name"), element.findtext("value")
        if name and value is not None:
            properties[name.strip()] = value.strip()
    return {name: _substituted(value, properties, environ) for name, value in properties.items()}


def _substituted(value: str, properties: Mapping[str, str], environ: Mapping[str, str]) -> str:
    def replacement(match: re.Match[str]) -> str:
        reference = match[1]
        if reference.startswith(("env.", "env:")):
            name, has_default, default = reference[4:].partition(":-")
            return environ.get(name, default if has_default else match[0])
        name = reference.removeprefix("system:")
        known = {"user.name": current_user(), "user.home": str(Path.home())}
        return properties.get(name, known.get(name, match[0]))

    for _ in range(_SUBSTITUTIONS_MAX):
        replaced = _REFERENCE.sub(replacement, value)
        if replaced == value:
            break
        value = replaced
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveSettings:
    """Address and transport of the metastore. `warehouse` is None when it is not configured."""

    uri: str
    warehouse: str | None
    timeout_seconds: float
    transport: TransportSettings
    list_batch: int
    """Tables in one request when the tables of a database are listed."""


def hive_settings(options: CatalogOptions, environ: Mapping[str, str] | None = None) -> HiveSettings:
    """Return the settings of a catalog.

    Raises InvalidOptionError, and NotSupportedError for unsupported ways to log in.
    """
    site = _SiteProperties({**read_hive_site(options.hive_conf_dir, environ), **options.raw})
    uri = options.uri or site.text("hive.metastore.uris") or site.text("metastore.thrift.uris")
    if not uri:
        raise InvalidOptionError(
            "A catalog with metastore=hive needs the option 'uri', such as thrift://127.0.0.1:9083 "
            "(or 'hive-conf-dir', a directory with a hive-site.xml that has hive.metastore.uris)."
        )
    _check_supported(site)
    timeout = options.client_timeout_millis
    return HiveSettings(
        uri=uri,
        warehouse=options.warehouse or site.text("hive.metastore.warehouse.dir"),
        timeout_seconds=(
            timeout / 1000
            if timeout is not None
            else site.seconds("hive.metastore.client.socket.timeout", DEFAULT_TIMEOUT_SECONDS)
        ),
        transport=TransportSettings(
            framed=site.flag("hive.metastore.thrift.framed.transport.enabled"),
            compact=site.flag("hive.metastore.thrift.compact.protocol.enabled"),
            tls=site.flag("hive.metastore.use.SSL"),
            certificates=_certificates(site),
            **_authentication(site, options, environ),
            connect_tries=site.count("hive.metastore.connect.retries", 3),
            connect_pause_seconds=site.seconds("hive.metastore.client.connect.retry.delay", 1.0),
            pool_size=POOL_SIZE if options.client_pool_size is None else max(1, options.client_pool_size),
        ),
        list_batch=site.count("hive.metastore.batch.retrieve.max", DEFAULT_LIST_BATCH),
    )


class _SiteProperties:
    """Properties by the names of Hive 2, for either of the two names."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def text(self, key: str) -> str | None:
        return self._properties.get(key) or self._properties.get(key.removeprefix("hive.")) or None

    def flag(self, key: str) -> bool:
        return (self.text(key) or "false").lower() == "true"

    def count(self, key: str, default: int) -> int:
        value = self.text(key)
        if value is None:
            return default
        if not value.isdigit():
            raise InvalidOptionError(f"{key} takes a number, not {value!r}.")
        return int(value) or default

    def seconds(self, key: str, default: float) -> float:
        value = self.text(key)
        if value is None:
            return default
        match = _DURATION.match(value)
        unit = _SECONDS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise InvalidOptionError(f"{key} takes a duration such as 600s, not {value!r}.")
        return int(match[1]) * unit


def _check_supported(site: _SiteProperties) -> None:
    mode = (site.text("hive.metastore.client.auth.mode") or "none").lower()
    transport = (site.text("hive.metastore.client.thrift.transport.mode") or "binary").lower()
    discovery = (site.text("hive.metastore.service.discovery.mode") or "").lower()
    if mode not in ("none", "nosasl", "plain", "jwt"):
        raise NotSupportedError(
            f"hive.metastore.client.auth.mode is {mode!r}; interbed's client logs in by PLAIN, or by JWT over HTTP."
        )
    if transport not in ("binary", "http"):
        raise NotSupportedError(
            f"hive.metastore.client.thrift.transport.mode is {transport!r}; interbed's client speaks binary and http."
        )
    if transport == "binary" and mode == "jwt":
        raise NotSupportedError(
            "hive.metastore.client.auth.mode is jwt, and tokens need hive.metastore.client.thrift.transport.mode=http."
        )
    if transport == "http" and mode == "plain":
        raise NotSupportedError(
            "hive.metastore.client.auth.mode is PLAIN, which needs hive.metastore.client.thrift.transport.mode=binary; "
            "by HTTP a token is sent with JWT or without a mode."
        )
    if transport == "http" and (
        site.flag("hive.metastore.thrift.framed.transport.enabled")
        or site.flag("hive.metastore.thrift.compact.protocol.enabled")
    ):
        raise NotSupportedError(
            "hive.metastore.client.thrift.transport.mode is http, which has neither framed transport nor the compact "
            "protocol."
        )
    if discovery == "zookeeper":
        raise NotSupportedError(
            "hive.metastore.service.discovery.mode is zookeeper; name the metastores themselves by the option 'uri'."
        )


def _authentication(
    site: _SiteProperties, options: CatalogOptions, environ: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the fields of TransportSettings for tokens and for Kerberos. By HTTP, Hive's variable may have a token."""
    if site.flag("hive.metastore.sasl.enabled"):
        return _kerberos(site, options, os.environ if environ is None else environ)
    credentials = ClientCredentials.of(options)
    client = None if credentials is None else OAuth2Token(credentials)
    if (site.text("hive.metastore.client.thrift.transport.mode") or "binary").lower() != "http":
        has_token = options.token is not None or options.token_path is not None or client is not None
        if (site.text("hive.metastore.client.auth.mode") or "none").lower() != "plain":
            if has_token:
                raise InvalidOptionError(
                    "A token needs hive.metastore.client.auth.mode=PLAIN with hive.metastore.client.plain.username, or "
                    "hive.metastore.client.thrift.transport.mode=http beside it."
                )
            return {}
        user = site.text("hive.metastore.client.plain.username")
        if user is None or not has_token:
            raise InvalidOptionError(
                "hive.metastore.client.auth.mode is PLAIN, which needs hive.metastore.client.plain.username, and a "
                "token by the option 'token', 'token.provider.path' or 'credential'."
            )
        return {"plain_user": user, "token": options.token, "token_file": options.token_path, "client": client}
    path = site.text("hive.metastore.client.thrift.http.path") or "metastore"
    token = options.token
    if token is None and options.token_path is None and client is None:
        token = (os.environ if environ is None else environ).get(TOKEN_VARIABLE)
    return {"http_path": f"/{path.lstrip('/')}", "token": token, "token_file": options.token_path, "client": client}


def _kerberos(site: _SiteProperties, options: CatalogOptions, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of TransportSettings for a login by Kerberos. InvalidOptionError, MissingExtraError."""
    mode = (site.text("hive.metastore.client.auth.mode") or "none").lower()
    if mode in ("plain", "jwt") or options.token is not None or options.token_path is not None:
        raise InvalidOptionError(
            "hive.metastore.sasl.enabled is true, which is a login by Kerberos; it goes with no token, and not with "
            f"hive.metastore.client.auth.mode={mode}."
        )
    principal = site.text("hive.metastore.kerberos.principal")
    if principal is None:
        raise InvalidOptionError(
            "hive.metastore.sasl.enabled is true, which needs hive.metastore.kerberos.principal, the principal of the "
            "metastore: hive/_HOST@REALM."
        )
    server_principal(principal, "host")
    found = {"kerberos": KerberosLogin.of(options), "acts_for": environ.get(PROXY_VARIABLE) or None}
    if (site.text("hive.metastore.client.thrift.transport.mode") or "binary").lower() == "http":
        path = site.text("hive.metastore.client.thrift.http.path") or "metastore"
        at_http = options.spnego_principal or f"HTTP/{principal.partition('/')[2]}"
        return {**found, "http_path": f"/{path.lstrip('/')}", "server_principal": at_http}
    layers = tuple(each.strip().lower() for each in (site.text("hadoop.rpc.protection") or "authentication").split(","))
    if not set(layers) <= {"authentication", "integrity", "privacy"}:
        raise InvalidOptionError(
            f"hadoop.rpc.protection takes some of authentication, integrity and privacy, not {','.join(layers)!r}."
        )
    return {**found, "server_principal": principal, "layers": layers}


def _certificates(site: _SiteProperties) -> str | None:
    path = site.text("hive.metastore.truststore.path")
    if path is None or not site.flag("hive.metastore.use.SSL"):
        return None
    path = path.removeprefix("file://").removeprefix("file:")
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidOptionError(f"hive.metastore.truststore.path can't be read: {error}") from error
    if b"-----BEGIN" not in content:
        raise InvalidOptionError(
            f"hive.metastore.truststore.path names {path}, a Java key store; interbed needs the certificates as PEM "
            "(`keytool -exportcert -rfc` writes them). Give their file by the option of the same name."
        )
    return path
