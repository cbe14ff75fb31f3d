"""The configuration values that clients ask a metastore for."""

from collections.abc import Mapping

from interbed.catalog.server.service.errors import ConfigValueError, MetastoreError
from interbed.catalog.server.service.names import DEFAULT_PARTITION_NAME, shortened

_READABLE_PREFIXES = ("hive", "hdfs", "mapred", "metastore")

_EXPRESSION_PROXY = "org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore"

_VALUES: Mapping[str, str] = {
    "hive.exec.default.partition.name": DEFAULT_PARTITION_NAME,
    "metastore.partition.default.name": DEFAULT_PARTITION_NAME,
    "hive.metastore.try.direct.sql": "true",
    "metastore.try.direct.sql": "true",
    "hive.metastore.integral.jdo.pushdown": "true",
    "metastore.integral.jdo.pushdown": "true",
    "hive.metastore.client.socket.timeout": "600s",
    "metastore.client.socket.timeout": "600s",
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
    "metastore.disallow.incompatible.col.type.changes": "false",
    "hive.metastore.try.direct.sql.ddl": "true",
    "metastore.try.direct.sql.ddl": "true",
    "hive.metastore.client.capability.check": "true",
    "metastore.client.capability.check": "true",
    # Hive asks before it inserts into partitions that it finds while it runs: any name may be a partition's.
    "hive.metastore.partition.name.whitelist.pattern": "",
    "metastore.partition.name.whitelist.pattern": "",
    # Set by MSCK REPAIR TABLE.
    "hive.metastore.expression.proxy": _EXPRESSION_PROXY,
    "metastore.expression.proxy": _EXPRESSION_PROXY,
}

_WITHOUT_EFFECT = (
    "try.direct.sql",
    "try.direct.sql.ddl",
    "integral.jdo.pushdown",
    "client.socket.timeout",
    "client.capability.check",
    "expression.proxy",
)
"""What a session may set to any value, because it is about how Java's server works, or about the client itself."""


class ConfigValues:
    """The configuration as clients see it: the values above, and those in effect."""

    def __init__(self, effective: Mapping[str, str] | None = None) -> None:
        self._values = {**_VALUES, **(effective or {})}

    def value(self, name: str | None, default: str | None) -> str:
        """The value of a key, or the default. ConfigValueError for keys that may hold secrets."""
        if name is None:
            return default or ""
        if not name.startswith(_READABLE_PREFIXES):
            raise ConfigValueError(f"For security reasons, the config key {shortened(name)} cannot be accessed")
        # An empty value is as good as none.
        return self._values.get(name) or default or ""

    def of_session(self, name: str | None) -> str:
        """The value of one of the keys that a session may set; MetastoreError for any other."""
        if name is None or name not in _VALUES:
            raise MetastoreError(f"Invalid configuration key {shortened(name)}")
        return self._values[name]

    def check_settable(self, name: str | None, value: str | None) -> None:
        """MetastoreError for a key that a session may not set, or a value that would not be heeded."""
        own = self.of_session(name)
        plain = (name or "").removeprefix("hive.").removeprefix("metastore.")
        if plain not in _WITHOUT_EFFECT and (value or "").lower() != own.lower():
            raise MetastoreError(
                f"{name} is '{own}' on this server and can't be changed for a session to '{shortened(value)}'"
            )
