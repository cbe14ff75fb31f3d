"""Settings as operators and clients that ask for Hive's keys may see them. Nothing secret is in them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interbed.catalog.server.setting_checks import is_loopback
from interbed.catalog.server.setting_kinds import mechanisms_of
from interbed.catalog.server.settings import SETTINGS, ServerSettings
from interbed.storage.base.shown_text import is_secret


def shown(settings: ServerSettings) -> dict[str, Any]:
    """Return the values as operators may see them: passwords hidden, paths as text."""
    values: dict[str, Any] = {}
    for name in SETTINGS:
        value = getattr(settings, name)
        values[name] = str(value) if isinstance(value, Path) else value
    values["db"] = without_password(settings.db)
    return values


def without_password(db: str) -> str:
    """Return a database url with its password hidden."""
    # SQLAlchemy is slow to import, and the command's help needs only the settings' names.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(db)
    except ArgumentError:
        # A text that is no url may be a password in the wrong place.
        return "***"
    hidden = {key: "***" if is_secret(key) else value for key, value in url.query.items()}
    return url.set(query=hidden).render_as_string(hide_password=True).replace("%2A%2A%2A", "***")


def client_values(settings: ServerSettings) -> dict[str, str]:
    """Return these settings as answers to clients that ask for Hive's keys. No addresses and nothing secret."""
    values = {
        "txn.timeout": f"{settings.lock_lease_seconds:g}s",
        "lock.disconnect.timeout": f"{round(settings.lock_disconnect_seconds * 1000)}ms",
        "lock.wait.timeout": f"{round(settings.lock_wait_seconds * 1000)}ms",
        "warehouse.dir": settings.warehouse,
        "thrift.port": str(settings.port),
        "port": str(settings.port),
        "server.max.threads": str(settings.connections_max),
        "server.max.message.size": str(settings.message_bytes_max),
        "limit.partition.request": str(settings.limit_partition_request),
        "event.db.listener.timetolive": f"{settings.events_ttl_seconds:g}s",
        "thrift.framed.transport.enabled": str(settings.transport == "framed").lower(),
        "thrift.compact.protocol.enabled": str(settings.protocol == "compact").lower(),
        "interbed.undrop": "true",
        "interbed.dropped": "true",
        "use.SSL": str(settings.tls_certificate is not None).lower(),
    }
    given = {prefix + key: value for key, value in values.items() for prefix in ("metastore.", "hive.metastore.")}
    return given | {"hive.txn.timeout": values["txn.timeout"]}


def warnings_for(settings: ServerSettings, sources: Mapping[str, str] | None = None) -> list[str]:
    """Return warnings for the operator about these settings and their sources, logged before the server starts."""
    warnings = []
    if (sources or {}).get("db") == SETTINGS["db"].option and "***" in without_password(settings.db):
        warnings.append(
            "the command line has the password of the database, which every user of this machine can see (ps). Give "
            f"the URL in {SETTINGS['db'].variable} or in a file of --config, or the password in PGPASSWORD or ~/.pgpass"
        )
    if not is_loopback(settings.host):
        mechanisms = mechanisms_of(settings.authentication)
        if settings.tls_client_ca is None and not mechanisms:
            warnings.append(
                f"listening on {settings.host} without authentication: every client that reaches the port may read and "
                "change all metadata, and have the server make and delete directories. Set `authentication`, or "
                "tls_client_ca to ask clients for certificates, or let only trusted machines reach the port"
            )
        elif settings.tls_certificate is None and mechanisms == ["kerberos"]:
            if settings.http_port is not None or settings.kerberos_protection != "privacy":
                warnings.append(
                    f"listening on {settings.host} without TLS: requests and answers can be read on the network, but "
                    "for those of Thrift's port whose clients choose privacy. Set tls_certificate, or "
                    "kerberos_protection = privacy for that port"
                )
        elif settings.tls_certificate is None:
            warnings.append(
                f"listening on {settings.host} without TLS: tokens can be read on the network. Set tls_certificate, or "
                "have a proxy before the server end TLS"
            )
    if settings.undrop_seconds:
        # Imported here, because the command's help needs only the settings' names.
        from interbed.catalog.server.service.warehouse import renames_directories

        if not renames_directories(settings.warehouse):
            warnings.append(
                f"undrop_seconds keeps no managed tables in {settings.warehouse}: an object store renames no "
                "directories, and drops delete at once. Keep older versions of objects in the store"
            )
    return warnings
