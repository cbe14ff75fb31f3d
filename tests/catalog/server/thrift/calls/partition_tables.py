"""Partitions for tests of calls about partitions."""

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import storage

KEYS = (("dt", "string"), ("n", "int"))
VALUES = (["v", "7"], ["w", "7"], ["x", "3"], ["y", "10"], ["z", "3"], ["a_b", "-5"], ["v1.2", "007"])
DEFAULT = "__HIVE_DEFAULT_PARTITION__"


def partition(
    database: str, values: list[str], name: str = "t", location: str | None = None, **parameters: str
) -> ttypes.Partition:
    """Return a partition of `t`."""
    return ttypes.Partition(
        values=values, dbName=database, tableName=name, sd=storage(location=location), parameters=parameters
    )


def texts(partitions: list[ttypes.Partition]) -> list[str]:
    """Return the values of each partition, joined by slashes."""
    return ["/".join(each.values) for each in partitions]


ALL = ["a_b/-5", "v/7", "v1.2/007", "w/7", "x/3", "y/10", "z/3"]
