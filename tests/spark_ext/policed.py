"""A server with a table that has row filters and column masks, its readers, and a model of what they see.

The user `filtered` has a row filter, `masked` has masks, `both` has both; `root` is the owner, and is bound by nothing.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tests.catalog.server.migration.commands import run
from tests.spark_ext.conftest import SparkLake
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test

FILTERED, MASKED, BOTH = READERS = ("filtered", "masked", "both")
CONDITION = "city <> 'Bonn' OR id > 7"

Row = tuple[int, str | None, str | None, int | None, str]
FIRST: Sequence[Row] = (
    (1, "Bonn", "11", 0, "a"),
    (2, "Ulm", "22", 20, "a"),
    (3, None, "33", 30, "b"),
    (4, "Ulm", None, 40, "b"),
)
SECOND: Sequence[Row] = (
    (5, "Bonn", "55", 900, "b"),
    (6, "Kiel", "66", -5, "c"),
    (7, "Bonn", "77", 70, "d"),
    (8, "Bonn", "88", 80, "c"),
)
COLUMNS = "id INT, city STRING, phone STRING, amount INT, dt STRING"
_NUMBERS = itertools.count()


def shown(reader: str, rows: Sequence[Row]) -> list[Row]:
    """Return what a reader sees of rows: by the filter, a null city does not differ from any."""
    kept = [row for row in rows if reader == MASKED or row[0] > 7 or row[1] not in (None, "Bonn")]
    if reader == FILTERED:
        return kept
    return [(each[0], each[1], None if each[1] is None else f"*{each[1]}", None, each[4]) for each in kept]


@dataclass(frozen=True)
class PolicedServer:
    """A server with policies, and the tokens of its users."""

    server: MetastoreUnderTest
    tokens: Mapping[str, str]

    def options(self, user: str, kind: str = "rest") -> dict[str, str]:
        """Return the options of a catalog of a user, by REST or by Hive's interface."""
        if kind == "hive":
            return {
                "metastore": "hive",
                "uri": self.server.uri,
                "token": self.tokens[user],
                "hive.metastore.client.auth.mode": "PLAIN",
                "hive.metastore.client.plain.username": user,
            }
        return {
            "metastore": "rest",
            "uri": f"{self.server.http}/paimon",
            "warehouse": "hive",
            "token.provider": "bear",
            "token": self.tokens[user],
        }

    def lake(self, spark: SparkSession, user: str, kind: str = "rest") -> SparkLake:
        """Create a catalog of a user in Spark."""
        lake = SparkLake(spark, f"policed{next(_NUMBERS)}", self.server.warehouse)
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in self.options(user, kind).items())
        lake.sql(f"CREATE CATALOG {{lake}} WITH ('type' = 'interbed', {listed})")
        return lake

    def set_policies(self, table: str) -> None:
        """Set a filter for the users `filtered` and `both`, and masks for `masked` and `both`."""
        of_filter = [word for reader in (FILTERED, BOTH) for word in ("--to", f"user {reader}")]
        of_masks = [word for reader in (MASKED, BOTH) for word in ("--to", f"user {reader}")]
        db = ("--db", self.server.db)
        run("policy", "set-filter", table, CONDITION, *of_filter, *db)
        run("policy", "set-mask", table, "phone", "CONCAT('*', city)", *of_masks, *db)
        run("policy", "set-mask", table, "amount", "NULL", *of_masks, *db)


@contextmanager
def policed_server(directory: Path) -> Iterator[PolicedServer]:
    """Run a server whose readers may read and change everything in the database `sales`, within its policies."""
    db = f"sqlite:///{directory / 'metastore.db'}"
    arguments = ("--http-port", "0", "--authentication", "token")
    builtin = ("--access-authorizer", "builtin", "--access-admins", "root")
    with metastore_under_test(db, directory, *arguments, *builtin) as server:
        tokens = {name: run("token", "create", name, "--db", db).strip() for name in ("root", *READERS)}
        yield PolicedServer(server, tokens)
