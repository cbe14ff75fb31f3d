"""The settings of a catalog server, and their sources.

The sources, weakest first: the defaults below; a Hive site (`--hive-site`, see hive_site.py); a TOML file (`--config`)
with the names below as its keys; environment variables, `INTERBED_SERVER_` and the name in capitals; the command line,
`--` and the name with dashes. An unknown name or an invalid value stops the server with a message that names the key,
its place, and the allowed values.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from interbed.catalog.server import hive_site
from interbed.catalog.server.authentication_settings import AuthenticationSettings
from interbed.catalog.server.service.locks import DISCONNECT_SECONDS
from interbed.catalog.server.setting_checks import (
    check_access,
    check_authentication,
    check_credentials,
    check_http_path,
    check_locations,
    check_metadata_root,
    check_paimon_warehouses,
    check_pem,
    check_ports,
    check_separator,
    check_trash,
)
from interbed.catalog.server.setting_kinds import (
    BYTES,
    MESSAGE_BYTES,
    NAMED_LOCATIONS,
    PATH,
    PORT,
    SECONDS,
    SECONDS_OR_NONE,
    SOME_BYTES,
    TEXT,
    ServerSettingsError,
    Setting,
    about,
    choice,
    from_environment,
    from_file,
    integer,
    listed,
    mechanisms_of,
    named_locations,
    optional,
    parsed,
    some_of,
    switch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(AuthenticationSettings):
    """The settings of a catalog server. Times are seconds, sizes bytes; paths are unchanged, relative to the working
    directory.
    """

    host: str = field(default="127.0.0.1", metadata=about("Address to listen on.", TEXT))
    port: int = field(default=9083, metadata=about("Port to listen on; 0 takes a free one.", PORT))
    db: str = field(
        default="sqlite:///metastore.db",
        metadata=about("Where metadata is kept: sqlite:///file.db or postgresql://user:password@host/database.", TEXT),
    )
    warehouse: str = field(
        default="file:./warehouse", metadata=about("Where databases and managed tables get their directories.", TEXT)
    )
    workers: int = field(default=1, metadata=about("Processes that serve the port.", integer(1, 256, "a number")))
    connections_max: int = field(
        default=2000,
        metadata=about("Clients at once, in each process; further ones wait.", integer(1, 100_000, "a number")),
    )
    message_seconds: float = field(
        default=60.0,
        metadata=about(
            "How long a client may take to send the rest of a message, and to take a reply, before it is dropped.",
            SECONDS,
        ),
    )
    message_bytes_max: int = field(
        default=16 << 20,
        metadata=about("The longest message of a client; a longer one is refused.", MESSAGE_BYTES),
    )
    partial_bytes_max: int = field(
        default=256 << 20,
        metadata=about(
            "Memory for messages that have come in part, in each process; beyond it the longest is dropped.", SOME_BYTES
        ),
    )
    decoded_bytes_max: int = field(
        default=512 << 20,
        metadata=about(
            "Memory for the requests that are served at once, as decoded, in each process; half of it for one request.",
            SOME_BYTES,
        ),
    )
    reply_bytes_max: int = field(
        default=128 << 20,
        metadata=about(
            "Memory for replies that clients have not taken yet, in each process; beyond it the slowest client is "
            "dropped.",
            SOME_BYTES,
        ),
    )
    store_seconds: float = field(
        default=15.0,
        metadata=about("How long a request waits for one answer of a remote file system or object store.", SECONDS),
    )
    lock_lease_seconds: float = field(
        default=300.0, metadata=about("How long a lock is kept for a client that no longer says anything.", SECONDS)
    )
    lock_disconnect_seconds: float = field(
        default=DISCONNECT_SECONDS,
        metadata=about(
            "How long a lock is kept when the last connection of its client has broken; 0: the lease decides.",
            SECONDS_OR_NONE,
        ),
    )
    lock_wait_seconds: float = field(
        default=2.0,
        metadata=about(
            "How long check_lock waits for its lock before it answers that it is not granted yet; 0: not at all.",
            SECONDS_OR_NONE,
        ),
    )
    lock_components_max: int = field(
        default=10_000,
        metadata=about("Components of one lock; a request with more is refused.", integer(1, 10**6, "a number")),
    )
    transport: Literal["buffered", "framed"] = field(
        default="buffered", metadata=about("How Thrift's messages are packed.", choice("buffered", "framed"))
    )
    protocol: Literal["binary", "compact"] = field(
        default="binary", metadata=about("How Thrift's values are written.", choice("binary", "compact"))
    )
    http_port: int | None = field(
        default=None,
        metadata=about(
            "Port for HTTP: the REST interfaces `/iceberg`, `/paimon` and `/interbed`, the console, and Thrift as Hive "
            "4's clients may use it; nothing: not served.",
            optional(PORT),
        ),
    )
    console: Literal["off", "on"] = field(
        default="on", metadata=about("Whether the port for HTTP has the console for people, at `/console`.", switch())
    )
    http_path: str = field(default="/metastore", metadata=about("Path of Thrift over HTTP.", TEXT))
    iceberg_own_tables: Literal["off", "on"] = field(
        default="on",
        metadata=about("Whether `/iceberg` has the tables in Paimon's format, too, to be read.", switch()),
    )
    iceberg_metadata_root: str | None = field(
        default=None,
        metadata=about(
            "Where the server writes Iceberg metadata for readers of tables that do not publish them, on the file "
            "system of the warehouse; nothing: in the directory of each table.",
            optional(TEXT),
        ),
    )
    iceberg_namespace_separator: str = field(
        default="$",
        metadata=about(
            "What is between the levels of an Iceberg namespace in the name of its database; nothing: namespaces have "
            "one level.",
            TEXT,
        ),
    )
    rest_interfaces: str = field(
        default="iceberg,paimon,interbed",
        metadata=about(
            "The REST interfaces of the port for HTTP, separated by commas; nothing: Thrift alone.",
            some_of("iceberg", "paimon", "interbed"),
        ),
    )
    paimon_warehouses: str | None = field(
        default=None,
        metadata=about(
            "Directories of Paimon tables without a metastore, NAME=LOCATION separated by commas, that `/paimon` "
            "serves as further warehouses.",
            optional(NAMED_LOCATIONS),
        ),
    )
    rows_streams_max: int = field(
        default=16,
        metadata=about(
            "Streams of rows at once, in each process, half of them for one principal; further ones are refused, to be "
            "repeated.",
            integer(1, 1000, "a number"),
        ),
    )
    rows_seconds_max: float = field(
        default=3600.0, metadata=about("How long a stream of rows may last before it ends with an error.", SECONDS)
    )
    rows_bytes_max: int = field(
        default=64 << 30,
        metadata=about("Bytes of a stream of rows; a longer one ends with an error.", SOME_BYTES),
    )
    rows_memory_max: int = field(
        default=256 << 20,
        metadata=about(
            "Memory for rows that were read and not taken yet, in each process; beyond it streams wait.",
            SOME_BYTES,
        ),
    )
    tls_certificate: Path | None = field(
        default=None,
        metadata=about("The server's certificate and its chain, a PEM file; turns TLS on.", optional(PATH)),
    )
    tls_key: Path | None = field(
        default=None, metadata=about("The certificate's private key, a PEM file.", optional(PATH))
    )
    tls_client_ca: Path | None = field(
        default=None,
        metadata=about(
            "Authorities, a PEM file; clients have to show a certificate that one of them signed.", optional(PATH)
        ),
    )
    health_host: str = field(default="127.0.0.1", metadata=about("Address of the port for health and metrics.", TEXT))
    health_port: int | None = field(
        default=None,
        metadata=about(
            "Port for /health/live, /health/ready and /metrics; 0 takes a free one, nothing: not served.",
            optional(PORT),
        ),
    )
    log_format: Literal["text", "json"] = field(
        default="text", metadata=about("How log lines are written.", choice("text", "json"))
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = field(
        default="INFO",
        metadata=about("What is written to standard error.", choice("DEBUG", "INFO", "WARNING", "ERROR")),
    )
    core_dumps: Literal["off", "on"] = field(
        default="off",
        metadata=about("Whether a crash may leave a core dump; it has the secrets in the server's memory.", switch()),
    )
    slow_call_seconds: float = field(default=5.0, metadata=about("A call that takes longer is logged.", SECONDS))
    audit_log: Path | None = field(
        default=None,
        metadata=about(
            "A file that changes of metadata are appended to, as JSON lines; `-` writes them to the log.",
            optional(PATH),
        ),
    )
    cache_bytes: int = field(
        default=64 << 20, metadata=about("Memory for answers kept, in each process; 0 keeps none.", BYTES)
    )
    limit_partition_request: int = field(
        default=-1,
        metadata=about(
            "Partitions that one request may ask for as a whole; a request for more is refused. -1: any number.",
            integer(-1, 2**31 - 1, "a number"),
        ),
    )
    transactional_tables: Literal["refuse", "keep"] = field(
        default="refuse",
        metadata=about(
            "What becomes of new tables with `transactional` or `transactional_properties`: `keep` stores them, as a "
            "metastore that moves has them, to be listed, described and dropped. There are no transactions, and calls "
            "about them fail either way.",
            choice("refuse", "keep"),
        ),
    )
    trash_seconds: float = field(
        default=0.0,
        metadata=about(
            "How long the files of what is dropped or emptied without PURGE are kept in the trash; 0: they are deleted "
            "at once.",
            SECONDS_OR_NONE,
        ),
    )
    trash_directory: str | None = field(
        default=None,
        metadata=about(
            "Where the trash is, on the file system of the warehouse; nothing: .Trash in the warehouse.", optional(TEXT)
        ),
    )
    undrop_seconds: float | None = field(
        default=None,
        metadata=about(
            "How long a table, view or database that was dropped without PURGE can be put back; 0: not at all. "
            "Nothing: 7 days, or 0 where trash_seconds is set.",
            optional(SECONDS_OR_NONE),
        ),
    )
    deletion_roots: str = field(
        default="warehouse,databases",
        metadata=about(
            "Below which directories the server deletes and moves files, separated by commas: locations, `warehouse`, "
            "and `databases` for the directories that it made when a database was created.",
            TEXT,
        ),
    )
    allowed_locations: str | None = field(
        default=None,
        metadata=about(
            "Below which locations, separated by commas, catalogs, databases, tables and partitions may be, beside the "
            "warehouse; nothing: anywhere.",
            optional(TEXT),
        ),
    )
    allowed_schemes: str | None = field(
        default=None,
        metadata=about(
            "Schemes of locations, separated by commas; nothing: file and those of Hadoop's file systems and of object "
            "stores.",
            optional(TEXT),
        ),
    )
    events_ttl_seconds: float = field(
        default=86400.0, metadata=about("How long notification events are kept.", SECONDS)
    )
    history_seconds: float = field(
        default=30 * 86400.0,
        metadata=about(
            "How long changes of metadata are kept, with the entries before and after; 0: they are not recorded.",
            SECONDS_OR_NONE,
        ),
    )
    history_entries_max: int = field(
        default=1_000_000,
        metadata=about(
            "Changes of metadata that are kept at most; the oldest are removed.",
            integer(1, 1_000_000_000, "a number"),
        ),
    )
    reaper_seconds: float = field(
        default=30.0,
        metadata=about(
            "Time between two looks for what has run out: locks, events, executions, dropped objects, the history, the "
            "trash.",
            SECONDS,
        ),
    )
    optimizer: Literal["off", "on"] = field(
        default="off",
        metadata=about("Whether an optimizer beside the server keeps its tables in shape.", switch()),
    )
    optimizer_groups: Path | None = field(
        default=None, metadata=about("The optimizer's file of resource groups, TOML.", optional(PATH))
    )
    optimizer_port: int = field(
        default=0,
        metadata=about("Port for the optimizer's remote workers, on the server's address; 0 takes a free one.", PORT),
    )


_OF_AUTHENTICATION = frozenset(field.name for field in dataclasses.fields(AuthenticationSettings))

SETTINGS: Mapping[str, Setting] = {
    each.name: Setting(name=each.name, kind=each.metadata["kind"], default=each.default, help=each.metadata["help"])
    for each in sorted(dataclasses.fields(ServerSettings), key=lambda field: field.name in _OF_AUTHENTICATION)
}
"""All settings, by name, in their order; those of authentication are the last."""


def load(
    file: Path | None,
    environ: Mapping[str, str],
    arguments: Mapping[str, str | None],
    *,
    site: Path | None = None,
) -> tuple[ServerSettings, dict[str, str]]:
    """Return the effective settings, and for each name the source of its value.

    `arguments` are the command line's values by name, None for absent ones. ServerSettingsError.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(SETTINGS, "default")
    for name, source, text in (
        *([] if file is None else from_file(file, SETTINGS)),
        *from_environment(environ, SETTINGS),
        *((name, SETTINGS[name].option, text) for name, text in arguments.items() if text is not None),
    ):
        values[name] = parsed(SETTINGS[name], source, text)
        sources[name] = source
    if site is not None:
        try:
            # The site is asked only for settings that no other source has set: it is written for another server, and a
            # Derby database in it is no error where `db` is set.
            given = hive_site.read(
                site,
                wanted=frozenset(SETTINGS) - values.keys(),
                is_kerberos="kerberos" in mechanisms_of(values.get("authentication", "")),
            )
        except hive_site.HiveSiteError as error:
            raise ServerSettingsError(str(error)) from error
        for name, (source, text) in given.items():
            values[name] = parsed(SETTINGS[name], source, text)
            sources[name] = source
    settings = ServerSettings(**values)
    _check(settings, sources)
    return settings, sources


def _check(settings: ServerSettings, sources: Mapping[str, str]) -> None:
    """Check the settings that depend on each other."""
    if settings.trash_seconds:
        check_trash(settings.warehouse, settings.trash_directory, sources)
    check_locations(
        "deletion_roots", listed(settings.deletion_roots), ("warehouse", "databases"), sources["deletion_roots"]
    )
    check_locations("allowed_locations", listed(settings.allowed_locations), (), sources["allowed_locations"])
    check_metadata_root(settings.warehouse, settings.iceberg_metadata_root, sources["iceberg_metadata_root"])
    check_authentication(settings, settings.host, settings.tls_client_ca, sources)
    check_credentials(settings, settings.http_port, sources)
    check_access(settings, sources)
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        given, missing = ("tls_certificate", "tls_key") if settings.tls_key is None else ("tls_key", "tls_certificate")
        raise ServerSettingsError(f"{sources[given]}: {given} needs {missing}, too")
    if settings.tls_client_ca is not None and settings.tls_certificate is None:
        raise ServerSettingsError(f"{sources['tls_client_ca']}: tls_client_ca needs tls_certificate and tls_key, too")
    for name in ("tls_certificate", "tls_key", "tls_client_ca", "ldap_ca"):
        path = getattr(settings, name)
        if path is not None:
            check_pem(name, path, sources[name])
    served = listed(settings.rest_interfaces) if settings.http_port is not None else ()
    has_console = settings.http_port is not None and settings.console == "on"
    check_http_path(settings.http_path, served, sources["http_path"], has_console=has_console)
    warehouses = named_locations(settings.paimon_warehouses)
    if warehouses:
        check_paimon_warehouses(settings.warehouse, warehouses, served, sources["paimon_warehouses"])
    check_separator(settings.iceberg_namespace_separator, sources["iceberg_namespace_separator"])
    ports = {"port": settings.port, "http_port": settings.http_port, "health_port": settings.health_port}
    check_ports(ports, sources)
