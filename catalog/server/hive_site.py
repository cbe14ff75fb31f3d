"""Settings from a hive-site.xml or metastore-site.xml, as a Java metastore reads it.

Such files hold hundreds of keys, most of which mean nothing to this server: those are ignored. A few must not be
ignored: a key that asks for authentication whose settings are not read is refused, because the server would be open.
Names are from Hive's MetastoreConf; each has an old form `hive.metastore.…` and a new one `metastore.…`.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from xml.etree import ElementTree

logger = logging.getLogger(__name__)

_DIRECT = {
    "thrift.bind.host": "host",
    "thrift.port": "port",
    "port": "port",
    "warehouse.dir": "warehouse",
    "server.max.threads": "connections_max",
    "server.max.message.size": "message_bytes_max",
    "event.db.listener.timetolive": "events_ttl_seconds",
    "limit.partition.request": "limit_partition_request",
}
"""Keys, without their prefix, whose value is used unchanged."""

_DELEGATION = {
    "cluster.delegation.token.max-lifetime": "delegation_max_seconds",
    "cluster.delegation.token.renew-interval": "delegation_renew_seconds",
    "cluster.delegation.key.update-interval": "delegation_key_seconds",
}
"""Keys of delegation tokens, without their prefix `metastore.` or `hive.`"""

HIVE_KEYS: Mapping[str, str] = {
    "host": "thrift.bind.host",
    "port": "thrift.port, port, uris",
    "warehouse": "warehouse.dir",
    "db": "javax.jdo.option.ConnectionURL, …UserName, …Password",
    "connections_max": "server.max.threads",
    "message_bytes_max": "server.max.message.size",
    "lock_lease_seconds": "hive.txn.timeout",
    "transport": "thrift.framed.transport.enabled",
    "protocol": "thrift.compact.protocol.enabled",
    "http_port": "server.thrift.transport.mode=http",
    "http_path": "server.thrift.http.path",
    "limit_partition_request": "limit.partition.request",
    "trash_seconds": "fs.trash.interval (minutes)",
    "events_ttl_seconds": "event.db.listener.timetolive",
    **{name: f"hive.{key}" for key, name in _DELEGATION.items()},
    "delegation_protection": "hadoop.rpc.protection",
    "authentication": "sasl.enabled",
    "kerberos_keytab": "kerberos.keytab.file",
    "kerberos_principal": "kerberos.principal",
    "kerberos_auth_to_local": "hadoop.security.auth_to_local",
    "kerberos_protection": "hadoop.rpc.protection",
    "proxy_users": "hadoop.proxyuser.*",
}
"""For the documentation: the keys from which a setting is read, without `metastore.` or `hive.metastore.`"""

_URL_KEYS = ("javax.jdo.option.ConnectionURL", "metastore.connect.url.key")
_USER_KEYS = ("javax.jdo.option.ConnectionUserName", "metastore.connection.user.name")
_PASSWORD_KEYS = ("javax.jdo.option.ConnectionPassword", "metastore.connection.password")
_TRASH_KEY = "fs.trash.interval"
_RULES_KEY = "hadoop.security.auth_to_local"
_PROTECTION_KEY = "hadoop.rpc.protection"
_PROXY_PREFIX = "hadoop.proxyuser."
_KERBEROS = {"kerberos.keytab.file": "kerberos_keytab", "kerberos.principal": "kerberos_principal"}
_PREFIXES = ("metastore.", "hive.metastore.")
_REFERENCE = re.compile(r"\$\{([^${}]+)\}")
_REFERENCES_MAX = 20

_JDBC_PARAMETERS = {"ssl": None, "sslmode": "sslmode", "sslrootcert": "sslrootcert", "sslcert": "sslcert"}
"""Parameters of PostgreSQL's JDBC driver that its C library knows; others are the driver's own."""


class HiveSiteError(Exception):
    """The file cannot be read, or asks for a feature that this server does not have."""


def read(path: Path, wanted: frozenset[str], *, is_kerberos: bool = False) -> dict[str, tuple[str, str]]:
    """Return the settings named in `wanted` that the file holds: name -> (its place in the file, text).

    `is_kerberos` says that another source asks for authentication by Kerberos. HiveSiteError.
    """
    site = _SiteFile(path)
    found: dict[str, tuple[str, str]] = {}
    for key, name in _DIRECT.items():
        site.put(found, name, key)
    site.put(found, "lock_lease_seconds", "txn.timeout", prefixes=("metastore.", "hive."))
    _trash(site, found)
    if site.is_true("thrift.framed.transport.enabled"):
        found["transport"] = (site.source("thrift.framed.transport.enabled"), "framed")
    if site.is_true("thrift.compact.protocol.enabled"):
        found["protocol"] = (site.source("thrift.compact.protocol.enabled"), "compact")
    if "port" not in found:
        _port_of_uris(site, found)
    _http(site, found)
    _delegation(site, found)
    if "db" in wanted:
        _database(site, found)
    if "authentication" in wanted:
        is_kerberos = _kerberos(site, found, wanted)
    if is_kerberos:
        _principals(site, found)
    _refuse_keystore(site, tls_is_set="tls_certificate" not in wanted)
    used = {source.rpartition(" ")[2] for source, _ in found.values()}
    for key in site.properties.keys() - used:
        logger.debug("%s: %s is not used", path, key)
    return {name: found[name] for name in found if name in wanted}


class _SiteFile:
    """The properties of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.properties = _properties(path)

    def key(self, suffix: str, prefixes: tuple[str, ...] = _PREFIXES) -> str | None:
        """Return the full name of a key in the file, None if it is missing."""
        return next((prefix + suffix for prefix in prefixes if prefix + suffix in self.properties), None)

    def get(self, suffix: str) -> str | None:
        """Return the value of a key, None if it is missing."""
        key = self.key(suffix)
        return None if key is None else self.properties[key]

    def is_true(self, suffix: str) -> bool:
        """Return whether a key has the value true."""
        return (self.get(suffix) or "").lower() == "true"

    def source(self, suffix: str) -> str:
        """Return the place of a key, for messages."""
        return self.place(self.key(suffix) or suffix)

    def place(self, key: str) -> str:
        """Return the place of a full key, for messages."""
        return f"{self._path} {key}"

    def put(
        self, found: dict[str, tuple[str, str]], name: str, suffix: str, prefixes: tuple[str, ...] = _PREFIXES
    ) -> None:
        """Use a value unchanged, unless the setting has one."""
        key = self.key(suffix, prefixes)
        if key is not None and self.properties[key] and name not in found:
            found[name] = (self.place(key), self.properties[key])


def _properties(path: Path) -> Mapping[str, str]:
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as error:
        raise HiveSiteError(f"cannot read the Hive site {path}: {error.strerror}") from error
    except ElementTree.ParseError as error:
        raise HiveSiteError(f"the Hive site {path} is not well-formed XML: {error}") from error
    raw: dict[str, str] = {}
    for element in root.iter("property"):
        name, value = element.findtext("name"), element.findtext("value")
        if name and value is not None:
            raw[name.strip()] = value.strip()
    return {name: _resolved(value, raw) for name, value in raw.items()}


def _resolved(value: str, raw: Mapping[str, str]) -> str:
    """Return the value with `${another.key}` replaced. Other references (system properties) are left."""
    for _ in range(_REFERENCES_MAX):
        replaced = _REFERENCE.sub(lambda match: raw.get(match[1], match[0]), value)
        if replaced == value:
            break
        value = replaced
    return value


def _port_of_uris(site: _SiteFile, found: dict[str, tuple[str, str]]) -> None:
    """Use the port that the site's clients call, if the server's own is not named."""
    key = site.key("uris") or site.key("thrift.uris")
    if key is None or not site.properties[key]:
        return
    first = site.properties[key].split(",")[0].strip()
    try:
        port = urlsplit(first).port
    except ValueError as error:
        raise HiveSiteError(f"{site.place(key)}: {first!r} is not an address such as thrift://host:9083") from error
    if port is not None:
        found["port"] = (site.place(key), str(port))


def _trash(site: _SiteFile, found: dict[str, tuple[str, str]]) -> None:
    """Use Hadoop's setting, which has no prefix and counts minutes."""
    minutes = site.properties.get(_TRASH_KEY)
    if minutes:
        found["trash_seconds"] = (site.place(_TRASH_KEY), f"{minutes}min")


def _delegation(site: _SiteFile, found: dict[str, tuple[str, str]]) -> None:
    """Use the lifetimes of delegation tokens. Hive's releases read a number without a unit differently."""
    protection = site.properties.get(_PROTECTION_KEY)
    if protection:
        found["delegation_protection"] = (site.place(_PROTECTION_KEY), protection)
    for key, name in _DELEGATION.items():
        site.put(found, name, key, prefixes=("metastore.", "hive."))
        if name in found and found[name][1].isdecimal():
            place, text = found[name]
            raise HiveSiteError(
                f"{place}: {text} has no unit: Hive 2 reads it as milliseconds, Hive 3 and 4 as days. Write one, such "
                "as 7d"
            )


def _http(site: _SiteFile, found: dict[str, tuple[str, str]]) -> None:
    if (site.get("server.thrift.transport.mode") or "").lower() != "http":
        return
    # In this mode Hive speaks HTTP on its one port; interbed uses a separate port.
    found["http_port"] = found.pop("port", (site.source("server.thrift.transport.mode"), "9083"))
    path = site.get("server.thrift.http.path")
    if path:
        found["http_path"] = (site.source("server.thrift.http.path"), f"/{path.strip('/')}")


def _database(site: _SiteFile, found: dict[str, tuple[str, str]]) -> None:
    key = next((key for key in _URL_KEYS if key in site.properties), None)
    if key is None:
        return
    place, jdbc = site.place(key), site.properties[key]
    if not jdbc.startswith("jdbc:postgresql:"):
        kind = jdbc.removeprefix("jdbc:").split(":")[0]
        raise HiveSiteError(
            f"{place}: the site keeps its metadata in {kind or 'nothing'}; interbed uses PostgreSQL or SQLite. Set db, "
            "and bring the metadata over with `interbed metastore import`"
        )
    found["db"] = (place, _postgres_url(place, jdbc, site.properties))


def _postgres_url(place: str, jdbc: str, properties: Mapping[str, str]) -> str:
    rest = jdbc.removeprefix("jdbc:postgresql:")
    try:
        parts = urlsplit(rest if rest.startswith("//") else f"//localhost/{rest}")
        port = parts.port
    except ValueError as error:
        raise HiveSiteError(f"{place}: this is not jdbc:postgresql://host:port/database") from error
    database = parts.path.strip("/")
    if not database or not parts.hostname:
        raise HiveSiteError(f"{place}: this is not jdbc:postgresql://host:port/database")
    parameters = dict(parse_qsl(parts.query))
    user = parameters.pop("user", None) or _first(properties, _USER_KEYS)
    password = parameters.pop("password", None) or _first(properties, _PASSWORD_KEYS)
    if parameters.get("ssl", "").lower() in ("true", "1"):
        parameters.setdefault("sslmode", "verify-full")
    kept = {name: parameters[key] for key, name in _JDBC_PARAMETERS.items() if name and key in parameters}
    who = "" if not user else quote(user, safe="") + ("" if not password else ":" + quote(password, safe="")) + "@"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = host if port is None else f"{host}:{port}"
    return f"postgresql://{who}{where}/{database}" + (f"?{urlencode(kept)}" if kept else "")


def _first(properties: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((properties[key] for key in keys if properties.get(key)), None)


def _kerberos(site: _SiteFile, found: dict[str, tuple[str, str]], wanted: frozenset[str]) -> bool:
    """Use the site's authentication by Kerberos, and return whether it asks for that. Refuse another authentication,
    where no setting says how clients are authenticated instead.
    """
    if site.is_true("sasl.enabled"):
        for key, name in _KERBEROS.items():
            if name in wanted and not site.get(key):
                raise HiveSiteError(
                    f"{site.source('sasl.enabled')}: the site asks for Kerberos, and has no {key}. Set {name}, or "
                    "`authentication` to another mechanism: certificate, token, jwt or ldap"
                )
        # As a Java metastore, which then takes its delegation tokens, too.
        found["authentication"] = (site.source("sasl.enabled"), "kerberos,delegation-token")
        return True
    authentication = (site.get("authentication") or "NONE").upper()
    if authentication not in ("NONE", "NOSASL"):
        way = "ldap with ldap_url and the other settings of LDAP" if authentication == "LDAP" else "another mechanism"
        raise HiveSiteError(
            f"{site.source('authentication')}: the site asks for {authentication}, and interbed does not read its "
            f"settings. Set `authentication` to {way}"
        )
    return False


def _principals(site: _SiteFile, found: dict[str, tuple[str, str]]) -> None:
    """Use the settings of Kerberos: the metastore's, and Hadoop's own, which have no prefix."""
    for key, name in _KERBEROS.items():
        site.put(found, name, key)
    rules = site.properties.get(_RULES_KEY)
    if rules:
        found["kerberos_auth_to_local"] = (site.place(_RULES_KEY), " ".join(rules.split()))
    protection = site.properties.get(_PROTECTION_KEY)
    if protection:
        found["kerberos_protection"] = (site.place(_PROTECTION_KEY), protection)
    proxies = {key: value for key, value in sorted(site.properties.items()) if key.startswith(_PROXY_PREFIX) and value}
    if proxies:
        entries = "; ".join(f"{key.removeprefix(_PROXY_PREFIX)}={value}" for key, value in proxies.items())
        found["proxy_users"] = (site.place(next(iter(proxies))), entries)


def _refuse_keystore(site: _SiteFile, *, tls_is_set: bool) -> None:
    if site.is_true("use.SSL") and not tls_is_set:
        keystore = site.get("keystore.path")
        raise HiveSiteError(
            f"{site.source('use.SSL')}: the site asks for TLS with a Java keystore ({keystore or 'none is named'}); "
            "interbed reads PEM files. Set tls_certificate and tls_key: keytool -importkeystore -deststoretype PKCS12 "
            "makes a .p12 of a keystore, openssl pkcs12 -nodes a PEM file of that"
        )
