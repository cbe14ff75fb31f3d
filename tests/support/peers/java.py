"""Java Paimon 1.4.2 as an independent reader and writer: a JVM for the whole test session.

`JavaPaimon` starts tests/interop/java/PaimonPeer.java and names its commands. Rows are JSON
(`tests.support.peers.json`) or Arrow tables.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa

from tests.support.peers.cache import java_classpath
from tests.support.peers.json import (
    PeerType,
    TypeJson,
    comparable,
    parse_type,
    rows_to_table,
    table_to_rows,
)
from tests.support.peers.process import JvmPeer, PeerProcess
from tests.support.peers.spark import HADOOP_OF_AWS, hadoop_aws_jars

JVM_OPTIONS = (
    "-Xmx512m",
    "-Xss4m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:MetaspaceSize=256m",
    "-Xshare:auto",
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)

Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRows:
    """Result of a read by a peer: names and types of the columns, the rows as JSON, and the kind of each row (`+I`,
    `-D`, …).
    """

    names: tuple[str, ...]
    types: tuple[PeerType, ...]
    rows: list[list[Any]]
    kinds: list[str]

    def comparable(self) -> list[list[Any]]:
        """Return the rows in an order and a form in which equal tables are equal lists."""
        return comparable(self.rows, self.types)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, without kinds."""
        return rows_to_table(self.rows, self.names, self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStream:
    """Result of a stream: the rows of each plan with the checkpoint after it, and the current checkpoint."""

    plans: list[tuple[int, PeerRows]]
    checkpoint: int | None
    ended: bool


@dataclass(frozen=True, slots=True)
class JavaTable:
    """Table of the peer; each method is one command."""

    peer: "JavaPaimon"
    warehouse: str
    name: str

    def _call(self, command: str, **fields: Any) -> Any:
        return self.peer.call(command, warehouse=self.warehouse, table=self.name, **fields)

    def create(
        self,
        columns: Sequence[tuple[str, TypeJson]],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> dict[str, Any]:
        """Create the table, and its database if it is missing, and return the JSON of the schema file."""
        answer: dict[str, Any] = self._call(
            "create_table",
            columns=[{"name": name, "type": of} for name, of in columns],
            primary_keys=list(primary_keys),
            partition_keys=list(partition_keys),
            options=dict(options or {}),
            comment=comment,
        )
        return answer

    def drop(self) -> None:
        """Drop the table and its files; a missing table is ignored."""
        self._call("drop_table")

    def schema(self) -> dict[str, Any]:
        """Return the JSON of the newest schema file."""
        answer: dict[str, Any] = self._call("schema")
        return answer

    def with_options(self, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the schema of the table under dynamic options. Raises PeerError when they contradict each other."""
        answer: dict[str, Any] = self._call("schema", dynamic_options=dict(options))
        return answer

    def types(self) -> tuple[PeerType, ...]:
        """Return the types of the columns of the newest schema."""
        return tuple(parse_type(column["type"]) for column in self.schema()["fields"])

    def alter(self, *changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change the schema; a change is `{"op": "add", "path": [name], "type": …, "first": True | "after": name}`,
        `{"op": "rename", "path": […], "to": name}`, `{"op": "drop", "path": […]}`,
        `{"op": "update_type", "path": […], "type": …}`, `{"op": "update_nullability", "path": […], "nullable": …}`,
        `{"op": "set_option", "key": …, "value": …}` or `{"op": "remove_option", "key": …}`.
        """
        answer: dict[str, Any] = self._call("alter", changes=[dict(change) for change in changes])
        return answer

    def write(
        self,
        rows: Sequence[Row],
        *,
        kinds: Sequence[str] | None = None,
        overwrite: Mapping[str, str | None] | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> dict[str, Any] | None:
        """Write JSON rows in one commit and return the latest snapshot's JSON.

        `kinds` are `+I`, `-U`, `+U`, `-D`, one a row (default all `+I`). `overwrite` replaces: {} the partitions that
        have rows, or all of the table when it has no partition or `dynamic-partition-overwrite` is false; a static
        partition replaces that one.
        """
        pairs = [[kind, list(row)] for kind, row in zip(kinds or ["+I"] * len(rows), rows, strict=True)]
        answer: dict[str, Any] | None = self._call(
            "write",
            rows=pairs,
            overwrite=None if overwrite is None else dict(overwrite),
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            dynamic_options=dict(options or {}),
        )
        return answer

    def write_arrow(self, data: pa.Table, **arguments: Any) -> dict[str, Any] | None:
        """Write an Arrow table with the columns in the order of the table; see `write`."""
        return self.write(table_to_rows(data, self.types()), **arguments)

    def write_columns(self, columns: Sequence[str], rows: Sequence[Row], *, first_row_id: int) -> dict[str, Any]:
        """Write values of some columns for all rows of a range of row ids, as Paimon's MERGE INTO does in a table with
        `data-evolution.enabled`; return the latest snapshot's JSON.
        """
        answer: dict[str, Any] = self._call(
            "write_columns", columns=list(columns), rows=[list(row) for row in rows], first_row_id=first_row_id
        )
        return answer

    def compact(self, *, full: bool = True, options: Mapping[str, str] | None = None) -> dict[str, Any] | None:
        """Compact every bucket (or the small files of an unbucketed table), and return the latest snapshot's JSON."""
        answer: dict[str, Any] | None = self._call("compact", full=full, dynamic_options=dict(options or {}))
        return answer

    def read(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the word that readers of tables expect
        snapshot_id: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> PeerRows:
        """Read the table; a filter is `{"op": "=", "field": name, "value": json}` with `=`, `<>`, `<`, `<=`, `>`, `>=`,
        `in`, `not in`, `is null`, `is not null`, `startswith`, or `{"op": "and" | "or", "args": […]}`.
        """
        answer = self._call(
            "read",
            columns=None if columns is None else list(columns),
            filter=filter,
            snapshot_id=snapshot_id,
            dynamic_options=dict(options or {}),
        )
        return _peer_rows(answer)

    def changes(self, first: int, last: int) -> PeerRows:
        """Return the changes of the snapshots from `first` to `last`, both included, as streaming readers see them."""
        return _peer_rows(self._call("changes", **{"from": first, "to": last}))

    def stream(
        self, *, options: Mapping[str, str] | None = None, restore: int | None = None, notify: bool = False
    ) -> PeerStream:
        """Return all current plans of a stream, from the checkpoint `restore` or from the start that the options name.

        System tables such as `t$audit_log` can be streamed. With `notify` the progress is recorded for the consumer
        that the options name.
        """
        answer = self._call("stream", dynamic_options=dict(options or {}), restore=restore, notify=notify)
        return PeerStream(
            plans=[
                (plan["checkpoint"], _peer_rows({"fields": answer["fields"], "rows": plan["rows"]}))
                for plan in answer["plans"]
            ],
            checkpoint=answer["checkpoint"],
            ended=answer["ended"],
        )

    def write_files(self, rows: Sequence[Row], *, overwrite: Mapping[str, str] | None = None) -> None:
        """Write JSON rows to a format table; `overwrite` is as in `write`."""
        pairs = [["+I", list(row)] for row in rows]
        self._call("format_write", rows=pairs, overwrite=None if overwrite is None else dict(overwrite))

    def read_files(self) -> PeerRows:
        """Return the rows of a format table."""
        return _peer_rows(self._call("format_read"))

    def read_table(self, *, options: Mapping[str, str] | None = None) -> PeerRows:
        """Return a batch read of any table, system tables included."""
        return _peer_rows(self._call("read_table", dynamic_options=dict(options or {})))

    def system(self) -> PeerRows:
        """Return the rows of a system table; the name of the table selects it, as in `d.t$files`."""
        return _peer_rows(self._call("system"))

    def version(self, action: str, **fields: Any) -> dict[str, Any]:
        """Change tags, branches or snapshots (see VersionCommands.java); return the tags by name, and the names of
        branches.
        """
        answer: dict[str, Any] = self._call("version", action=action, **fields)
        return answer

    def plan(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        snapshot_id: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the splits of a scan: partition, bucket, raw_convertible, and files with level, key range and
        statistics.
        """
        answer: list[dict[str, Any]] = self._call("plan", filter=filter, snapshot_id=snapshot_id)
        return answer

    def files(self, **arguments: Any) -> list[dict[str, Any]]:
        """Return the data files of `plan`, without their splits."""
        return [file for split in self.plan(**arguments) for file in split["files"]]

    def snapshots(self) -> list[dict[str, Any]]:
        """Return the JSON of every snapshot, oldest first."""
        answer: list[dict[str, Any]] = self._call("snapshots")
        return answer


def _peer_rows(answer: Mapping[str, Any]) -> PeerRows:
    return PeerRows(
        names=tuple(column["name"] for column in answer["fields"]),
        types=tuple(parse_type(column["type"]) for column in answer["fields"]),
        rows=[row for _, row in answer["rows"]],
        kinds=[kind for kind, _ in answer["rows"]],
    )


def _classpath_with_settings(home: Path, settings: Mapping[str, str]) -> str:
    """Return the class path after a directory with Hadoop's settings, with Hadoop's client for S3 if they name it."""
    site = ElementTree.Element("configuration")
    for name, value in settings.items():
        entry = ElementTree.SubElement(site, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = value
    ElementTree.ElementTree(site).write(home / "core-site.xml")
    if not any(name.startswith("fs.s3a.") for name in settings):
        return f"{home}:{java_classpath()}"
    return ":".join([str(home), java_classpath(HADOOP_OF_AWS), *map(str, hadoop_aws_jars())])


class JavaPaimon(JvmPeer):
    """The JVM of Java Paimon; close it (or leave its `with` block) to end it."""

    def __init__(
        self, timeout_seconds: float = 120, *, zone: str = "UTC", hadoop: Mapping[str, str] | None = None
    ) -> None:
        """Start the JVM. `hadoop` has the settings of its core-site.xml; `fs.s3a.…` adds Hadoop's client for S3."""
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-java-")
        home = Path(self._directory.name)
        spill = home / "spill"
        spill.mkdir()
        classpath = java_classpath() if hadoop is None else _classpath_with_settings(home, hadoop)
        self._process = PeerProcess(
            ["java", *JVM_OPTIONS, f"-Duser.timezone={zone}", "-cp", classpath, "PaimonPeer", str(spill)],
            home / "stderr.log",
            timeout_seconds,
        )

    def call(self, command: str, **fields: Any) -> Any:
        """Send one command. Raises PeerError when Paimon refuses it."""
        return self._process.call(command, **fields)

    def table(self, warehouse: str | Path, name: str) -> JavaTable:
        """Return the table `database.table` of a warehouse directory, without a look-up."""
        return JavaTable(self, str(warehouse), name)

    def buckets(
        self,
        types: Sequence[TypeJson],
        rows: Sequence[Row],
        num_buckets: Sequence[int],
        options: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Return for each row, as a bucket key, `{"hash": int, "buckets": [one per number of buckets]}`."""
        answer: list[dict[str, Any]] = self.call(
            "buckets",
            types=list(types),
            rows=[list(row) for row in rows],
            num_buckets=list(num_buckets),
            options=dict(options or {}),
        )
        return answer

    def binary_rows(self, types: Sequence[TypeJson], rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return for each row `{"bytes": base64 of its BinaryRow without arity, "hash": int}`."""
        answer: list[dict[str, Any]] = self.call("binary_rows", types=list(types), rows=[list(row) for row in rows])
        return answer

    def picks(
        self,
        trees: Sequence[Sequence[tuple[int, int]]],
        *,
        num_levels: int,
        amplification: int,
        ratio: int,
        trigger: int,
        total: int | None = None,
        incremental: int | None = None,
        off_peak: tuple[int, int, int] = (-1, -1, 0),
        force_up: int = 0,
    ) -> list[tuple[int, int] | None]:
        """Return the picks of one compaction strategy from a sequence of trees of (level, bytes), newest first.

        A pick is the number of runs and their target level; None when no compaction is due. The arguments are those of
        UniversalStrategy.
        """
        answer = self.call(
            "picks",
            trees=[[list(run) for run in tree] for tree in trees],
            num_levels=num_levels,
            amplification=amplification,
            ratio=ratio,
            trigger=trigger,
            total=total,
            incremental=incremental,
            off_peak=list(off_peak),
            force_up=force_up,
        )
        return [None if pick is None else (pick[0], pick[1]) for pick in answer]

    def option_keys(self, *classes: str) -> list[tuple[str, str | None, list[str]]]:
        """Return key, default (None for none) and older keys of each option that the classes define."""
        answer = self.call("option_keys", classes=list(classes))
        return [(key, default, older) for key, default, older in answer]
