"""Options of catalogs, with Paimon's names (documentation: maintenance/configurations, catalog options)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import all_masked, did_you_mean, is_secret, without_credentials
from interbed.storage.io.hdfs.settings import LOGIN_OPTIONS
from interbed.storage.meta.options.core import CoreOptions


class MetastoreKind(StrEnum):
    """The place where a catalog keeps its databases and tables."""

    FILESYSTEM = "filesystem"
    HIVE = "hive"
    REST = "rest"


class RowOrigin(StrEnum):
    """The place where a REST catalog's client reads the rows of a table."""

    AUTO = "auto"
    FILES = "files"
    SERVER = "server"


class LockMode(StrEnum):
    """The changes of a table that hold its lock in the metastore."""

    TRUE = "true"
    FALSE = "false"
    AUTO = "auto"


KNOWN = frozenset(
    {
        "type",
        "catalog-impl",
        "warehouse",
        "metastore",
        "uri",
        "hive-conf-dir",
        "hadoop-conf-dir",
        "lock.enabled",
        "lock.type",
        "lock-acquire-timeout",
        "lock-check-max-sleep",
        "client-pool-size",
        "client-timeout",
        "case-sensitive",
        "catalog-options-table.enabled",
        "table.type",
        "sync-all-properties",
        "format-table.enabled",
        "location-in-properties",
        "alter-table-cascade",
        "cache-enabled",
        "default-database",
        "optimizer.db",
        "undrop-seconds",
        "token",
        "token.provider",
        "token.provider.path",
        "credential",
        "oauth2-server-uri",
        "scope",
        *LOGIN_OPTIONS,
        "token.provider.principal",
        "dlf.region",
        "dlf.access-key-id",
        "dlf.access-key-secret",
        "dlf.security-token",
        "dlf.token-path",
        "dlf.token-loader",
        "dlf.token-ecs-metadata-url",
        "dlf.token-ecs-role-name",
        "dlf.signing-algorithm",
        "data-token.enabled",
        "read.rows-from",
        # Options of Paimon's Java clients; they are accepted, so that one set of options serves both, but have no
        # effect.
        "metastore.client.class",
        "client-pool-cache.eviction-interval-ms",
        "client-pool-cache.keys",
    }
)
PREFIXES = (
    *("fs.", "s3.", "google.", "hadoop.", "dfs.", "hive.", "table-default.", "cache.", "store.", "local-cache."),
    "header.",
)
FILE_SYSTEM_PREFIXES = (
    *("fs.", "s3.", "google.", "hadoop.", "dfs.", "hadoop-conf-dir", "hive-conf-dir"),
    *("store.", "local-cache."),
)
"""Prefixes of a catalog's options of its file system; tables read them as dynamic options."""
_BY_FILE = frozenset(
    {
        "metastore",
        "uri",
        "warehouse",
        "client-timeout",
        "data-token.enabled",
        "token.provider",
        "token.provider.path",
        "dlf.region",
        "dlf.token-path",
        "dlf.token-loader",
        "dlf.token-ecs-metadata-url",
        "dlf.token-ecs-role-name",
        "dlf.signing-algorithm",
    }
)
"""Options of a REST catalog that authenticates by a file, or by the role of its machine. None of them is secret."""
_HEADER = "header."
UNNAMED = "default"
"""The name of a catalog that is described by options alone, and of the default catalog."""
LOCATING = frozenset({"warehouse", "metastore", "uri", "hive-conf-dir"})
"""Options that each describe a catalog, so that no configured catalog is used."""


def is_known(key: str) -> bool:
    """Return whether a catalog has an option of that name."""
    return key in KNOWN or key.startswith(PREFIXES)


def options_of_files(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a catalog that open files; keys of an object store and a keytab are among them."""
    return {key: value for key, value in raw.items() if key.startswith(FILE_SYSTEM_PREFIXES) or key in LOGIN_OPTIONS}


def secret_options(raw: Mapping[str, str]) -> list[str]:
    """Return the names of the secret options of a catalog."""
    return [key for key in raw if is_secret(key) and key not in _BY_FILE]


def secret_values(raw: Mapping[str, str]) -> set[str]:
    """Return the values that no message may contain: of secret options, and their parts after a colon or a blank."""
    values = [raw[key] for key in secret_options(raw)]
    return {part for value in values for part in (value, value.partition(":")[2], value.rpartition(" ")[2]) if part}


def options_for_executors(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a catalog for a process that opens files and may not act as its user.

    These are the options of the file system without a login by Kerberos, which is that of the user. If the catalog
    authenticates by a file, they are joined by the address of the server and the path of that file, with which the
    process renews credentials if the file exists on its machine.
    """
    found = {key: value for key, value in options_of_files(raw).items() if key not in LOGIN_OPTIONS}
    if CatalogOptions(found | {k: v for k, v in raw.items() if k in _BY_FILE}).authenticates_by_file:
        found |= {k: without_credentials(v) for k, v in raw.items() if k in _BY_FILE}
    return found


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The options of one catalog, typed; each property raises InvalidOptionError naming option and value."""

    raw: Mapping[str, str]

    def __post_init__(self) -> None:
        for key in self.raw:
            if not is_known(key):
                known = ", ".join(sorted(KNOWN - {"catalog-impl", "type"}))
                raise InvalidOptionError(
                    f"Unknown catalog option '{key}'.{did_you_mean(key, KNOWN)} Known options are {known}; or "
                    f"{', '.join(PREFIXES)}…"
                )

    def __repr__(self) -> str:
        return f"CatalogOptions(raw={all_masked(self.raw)!r})"

    @property
    def _core(self) -> CoreOptions:
        return CoreOptions(self.raw)

    @property
    def metastore(self) -> MetastoreKind:
        """The place of databases and tables."""
        return self._core.choice("metastore", MetastoreKind.FILESYSTEM)

    @property
    def warehouse(self) -> str | None:
        """The root directory of databases."""
        return self.raw.get("warehouse")

    @property
    def uri(self) -> str | None:
        """Addresses of the metastore, `thrift://host:port`, several separated by commas; that of a REST server."""
        return self.raw.get("uri")

    @property
    def hive_conf_dir(self) -> str | None:
        """The directory of hive-site.xml."""
        return self.raw.get("hive-conf-dir")

    @property
    def lock_mode(self) -> LockMode | None:
        """Whether commits and changes of tables hold a catalog lock.

        With `auto`, commits to a local file system hold none. None is the default of the catalog: `true` for Hive, no
        locks for file systems.
        """
        return self._core.choice("lock.enabled", LockMode.TRUE) if "lock.enabled" in self.raw else None

    @property
    def lock_acquire_timeout_millis(self) -> int:
        """The maximum time to wait for a lock."""
        return self._core.duration_millis("lock-acquire-timeout", 480_000)

    @property
    def lock_check_max_sleep_millis(self) -> int:
        """The longest pause between two checks of a waiting lock."""
        return self._core.duration_millis("lock-check-max-sleep", 8_000)

    @property
    def client_timeout_millis(self) -> int | None:
        """The maximum time to wait for an answer of the metastore; None for the value of hive-site.xml."""
        return self._core.duration_millis("client-timeout", 0) if "client-timeout" in self.raw else None

    @property
    def client_pool_size(self) -> int | None:
        """The number of idle connections to the metastore; None for the default of the client."""
        return self._core.integer("client-pool-size", 0) if "client-pool-size" in self.raw else None

    @property
    def sync_all_properties(self) -> bool:
        """Whether a table's options are copied into the metastore's parameters."""
        return self._core.boolean("sync-all-properties", True)

    @property
    def format_table_enabled(self) -> bool:
        """Whether tables of Hive's formats in a metastore are tables of the catalog, and format tables are created."""
        return self._core.boolean("format-table.enabled", True)

    @property
    def location_in_properties(self) -> bool:
        """Whether locations are in the parameters of databases, tables and partitions instead of their own field."""
        return self._core.boolean("location-in-properties", False)

    @property
    def alter_table_cascade(self) -> bool:
        """Whether the metastore changes the columns of partitions, too."""
        return self._core.boolean("alter-table-cascade", True)

    @property
    def skip_update_stats(self) -> bool:
        """Whether the metastore keeps its statistics of a table when the table is altered."""
        return self._core.boolean("hive.skip-update-stats", False)

    @property
    def table_type(self) -> str:
        """`managed` or `external`: whether dropping a table deletes its files."""
        value = self._core.text("table.type", "managed").lower()
        if value not in ("managed", "external"):
            raise InvalidOptionError(f"Option 'table.type' takes managed or external, not '{value}'.")
        return value

    @property
    def shows_options(self) -> bool:
        """Whether the catalog has `sys.catalog_options`.

        Paimon's default is false, because the table shows secrets; interbed masks them.
        """
        return self._core.boolean("catalog-options-table.enabled", True)

    @property
    def optimizer_db(self) -> str | None:
        """The URL of the database of the optimizer's journal; None for the optimizer's default."""
        return self.raw.get("optimizer.db")

    @property
    def undrop_seconds(self) -> int:
        """How long a file-system catalog keeps dropped tables and databases, in seconds, to be put back; 0 deletes them
        at once, as Paimon does.
        """
        seconds = self._core.integer("undrop-seconds", 0)
        if seconds < 0:
            raise InvalidOptionError(f"Option 'undrop-seconds' takes 0 or more seconds, not {seconds}.")
        return seconds

    @property
    def token_provider(self) -> str | None:
        """How requests to a REST catalog are authenticated: `bear` sends a token, `dlf` signs with an access key,
        `spnego` sends tickets of Kerberos.
        """
        return self.raw.get("token.provider")

    @property
    def token(self) -> str | None:
        """The token of the provider `bear`."""
        return self.raw.get("token")

    @property
    def token_path(self) -> str | None:
        """A file with the token of the provider `bear`, which is read again when it has changed."""
        return self.raw.get("token.provider.path")

    @property
    def credential(self) -> str | None:
        """CLIENT_ID:CLIENT_SECRET of an OAuth 2.0 client, with which tokens are fetched and renewed."""
        return self.raw.get("credential")

    @property
    def oauth2_server_uri(self) -> str | None:
        """The token endpoint for `credential`: https, or http on loopback."""
        return self.raw.get("oauth2-server-uri")

    @property
    def scope(self) -> str | None:
        """The scope of the tokens that are fetched with `credential`."""
        return self.raw.get("scope")

    @property
    def kerberos_login_principal(self) -> str | None:
        """The principal of the client, for a login by Kerberos; None for that of the ticket cache."""
        return self.raw.get("security.kerberos.login.principal") or None

    @property
    def kerberos_login_keytab(self) -> str | None:
        """The file with the key of the client, by which tickets are fetched and renewed; None for the ticket cache."""
        return self.raw.get("security.kerberos.login.keytab") or None

    @property
    def kerberos_login_use_ticket_cache(self) -> bool:
        """Whether tickets of the user's ticket cache are used where there is no keytab."""
        return self._core.boolean("security.kerberos.login.use-ticket-cache", True)

    @property
    def spnego_principal(self) -> str | None:
        """The principal of a server over HTTP, for a login by Kerberos: `HTTP/_HOST@REALM`."""
        return self.raw.get("token.provider.principal")

    @property
    def dlf_region(self) -> str | None:
        """The region of DLF; None means the one that `uri` names."""
        return self.raw.get("dlf.region")

    @property
    def dlf_access_key_id(self) -> str | None:
        """The id of the access key of the provider `dlf`."""
        return self.raw.get("dlf.access-key-id")

    @property
    def dlf_access_key_secret(self) -> str | None:
        """The secret of the access key of the provider `dlf`."""
        return self.raw.get("dlf.access-key-secret")

    @property
    def dlf_security_token(self) -> str | None:
        """The security token of a session of the provider `dlf`."""
        return self.raw.get("dlf.security-token")

    @property
    def dlf_token_path(self) -> str | None:
        """A JSON file with the access key of the provider `dlf`, which is read again before the key expires."""
        return self.raw.get("dlf.token-path")

    @property
    def dlf_token_loader(self) -> str | None:
        """The source of the access key of the provider `dlf`: `local_file`, or `ecs` for the role of an instance."""
        return self.raw.get("dlf.token-loader")

    @property
    def dlf_metadata_url(self) -> str:
        """The address of the metadata service of an instance, for `dlf.token-loader` = `ecs`."""
        url = "http://100.100.100.200/latest/meta-data/Ram/security-credentials/"
        return self._core.text("dlf.token-ecs-metadata-url", url)

    @property
    def dlf_role_name(self) -> str | None:
        """The name of the role of an instance; None means the one that the metadata service names."""
        return self.raw.get("dlf.token-ecs-role-name")

    @property
    def dlf_signing_algorithm(self) -> str | None:
        """The algorithm of the provider `dlf`: `default`; `openapi` is not supported."""
        return self.raw.get("dlf.signing-algorithm")

    @property
    def authenticates_by_file(self) -> bool:
        """Whether requests to a REST catalog are authenticated without a secret among the options."""
        by_file = self.token_path or self.dlf_token_path or self.dlf_token_loader
        return self.metastore is MetastoreKind.REST and bool(by_file)

    @property
    def data_token_enabled(self) -> bool:
        """Whether the REST server hands out credentials for the files of each table."""
        return self._core.boolean("data-token.enabled", False)

    @property
    def rows_from(self) -> RowOrigin:
        """The place where rows are read: `files`, or `server`, which reads them for clients without keys of the store,
        of Iceberg's and Hive's own tables, too.

        With `auto`, the server reads them if it issues no credentials for the table to a user with row filters, column
        masks or privileges on some columns.
        """
        return self._core.choice("read.rows-from", RowOrigin.AUTO)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of all requests to a REST catalog: `header.<name>`."""
        return {k[len(_HEADER) :]: v for k, v in self.raw.items() if k.startswith(_HEADER)}

    @property
    def table_defaults(self) -> dict[str, str]:
        """Default options of new tables: `table-default.<option>`."""
        prefix = "table-default."
        return {k[len(prefix) :]: v for k, v in self.raw.items() if k.startswith(prefix)}
