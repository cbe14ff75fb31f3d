"""Hive catalog of Java Paimon 1.2.0 as an independent reader and writer: a JVM for a whole test module.

`JavaHiveCatalog` starts tests/interop/java_hive/HiveCatalogPeer.java with the client of Hive 2.3.10 and names its
commands. Columns are INT, BIGINT and STRING; rows are lists of their values.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.peers.cache import INTEROP, built_once, fingerprint, java_sources, run
from tests.support.peers.java import JVM_OPTIONS
from tests.support.peers.json import TypeJson
from tests.support.peers.process import JvmPeer, PeerProcess

Row = Sequence[Any]

_DIRECTORY = INTEROP / "java_hive"


def _classpath() -> str:
    pom = _DIRECTORY / "pom.xml"
    sources = java_sources(_DIRECTORY)

    def fetch(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    jars = built_once(f"java-hive-catalog-1.2.0-{fingerprint(pom)}", fetch)

    def compile_peer(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", *sources)

    classes = built_once(f"java-hive-catalog-peer-{fingerprint(pom, *sources)}", compile_peer)
    return f"{classes}:{jars}/*"


class JavaHiveCatalog(JvmPeer):
    """Catalog of the peer; `options` are Paimon's. Every method is one command; a refused command raises PeerError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-java-hive-")
        path = Path(self._directory.name)
        self._process = PeerProcess(
            ["java", *JVM_OPTIONS, "-cp", _classpath(), "HiveCatalogPeer", str(path)], path / "peer.log", 240
        )

    def call(self, command: str, **fields: Any) -> Any:
        """Send a command with the options of the catalog."""
        return self._process.call(command, options=self._options, **fields)

    def databases(self) -> list[str]:
        """Return the names of the databases, sorted."""
        return sorted(self.call("databases"))

    def create_database(self, database: str) -> None:
        self.call("create_database", database=database)

    def tables(self, database: str) -> list[str]:
        """Return the names of the tables, sorted."""
        return sorted(self.call("tables", database=database))

    def create_table(
        self,
        table: str,
        columns: Sequence[tuple[str, str] | tuple[str, str, str]],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> dict[str, Any]:
        """Create a table of columns (name, type[, comment]), and return the JSON of its schema file."""
        answer: dict[str, Any] = self.call(
            "create_table",
            table=table,
            columns=[dict(zip(("name", "type", "comment"), column, strict=False)) for column in columns],
            primary_keys=list(primary_keys),
            partition_keys=list(partition_keys),
            table_options=dict(options or {}),
            comment=comment,
        )
        return answer

    def drop_table(self, table: str) -> None:
        self.call("drop_table", table=table)

    def rename_table(self, table: str, to: str) -> None:
        self.call("rename_table", table=table, to=to)

    def alter(self, table: str, *changes: Mapping[str, str]) -> dict[str, Any]:
        """Change the schema; `{"op": "add", "name": …, "type": …}` and so on as HiveCatalogPeer.alter has it."""
        answer: dict[str, Any] = self.call("alter", table=table, changes=[dict(c) for c in changes])
        return answer

    def repair(self, *, database: str | None = None, table: str | None = None) -> None:
        """Repair the metastore: all of it, one database or one table."""
        self.call("repair", database=database, table=table)

    def write(self, table: str, rows: Sequence[Row], *, overwrite: Mapping[str, str] | None = None) -> int:
        """Commit rows, and return the id of the snapshot."""
        answer: int = self.call("write", table=table, rows=[list(row) for row in rows], overwrite=overwrite)
        return answer

    def write_at_once(self, table: str, work: Sequence[Sequence[Sequence[Row]]]) -> list[list[int]]:
        """Commit from several threads at the same time, and return their snapshot ids. A thread has a list of commits,
        a commit a list of rows.
        """
        answer: list[list[int]] = self.call("write_at_once", table=table, work=work)
        return answer

    def read(self, table: str) -> list[list[Any]]:
        """Return all rows, sorted."""
        return sorted(self.call("read", table=table), key=repr)

    def partitions(self, table: str) -> list[dict[str, Any]]:
        """Return the peer's description of each partition."""
        answer: list[dict[str, Any]] = self.call("partitions", table=table)
        return sorted(answer, key=lambda p: tuple(p["spec"].values()))

    def report_partitions(self, table: str) -> list[dict[str, Any]]:
        """Write the statistics of the partitions to the metastore, and return them."""
        answer: list[dict[str, Any]] = self.call("report_partitions", table=table)
        return sorted(answer, key=lambda p: tuple(p["spec"].values()))

    def create_partitions(self, table: str, specs: Sequence[Mapping[str, str]]) -> None:
        self.call("create_partitions", table=table, partitions=[dict(s) for s in specs])

    def drop_partitions(self, table: str, specs: Sequence[Mapping[str, str]]) -> None:
        self.call("drop_partitions", table=table, partitions=[dict(s) for s in specs])

    def views(self, database: str) -> list[str]:
        """Return the names of the views, sorted."""
        return sorted(self.call("view_names", database=database))

    def view(self, view: str) -> dict[str, Any]:
        """Return the query, columns (as in a schema file), comment and options of a view."""
        answer: dict[str, Any] = self.call("view_get", view=view)
        return answer

    def create_view(
        self,
        view: str,
        query: str,
        columns: Sequence[tuple[str, TypeJson, str | None]],
        *,
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> dict[str, Any]:
        """Create a view of columns (name, type, comment), and return its description by `view`."""
        answer: dict[str, Any] = self.call(
            "view_create",
            view=view,
            query=query,
            columns=[dict(zip(("name", "type", "comment"), column, strict=True)) for column in columns],
            view_options=dict(options or {}),
            comment=comment,
        )
        return answer

    def rename_view(self, view: str, to: str) -> None:
        self.call("view_rename", view=view, to=to)

    def drop_view(self, view: str) -> None:
        self.call("view_drop", view=view)
