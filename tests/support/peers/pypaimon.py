"""pypaimon 2.1.0 and pypaimon-rust 0.4.0 as independent readers and writers in a separate environment.

`PyPaimon` starts tests/interop/pypaimon_peer.py there; `table(…, engine="rust")` uses pypaimon-rust.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa

from tests.support.peers.cache import INTEROP, pypaimon_python
from tests.support.peers.java import PeerRows, Row
from tests.support.peers.json import (
    PeerType,
    TypeJson,
    parse_type,
    rows_to_table,
    table_to_rows,
)
from tests.support.peers.process import PeerProcess

Engine = Literal["python", "rust"]


@dataclass(frozen=True, slots=True)
class PyPaimonTable:
    """Table of the peer; each method is one command."""

    peer: "PyPaimon"
    warehouse: str
    name: str
    engine: Engine

    def _call(self, command: str, **fields: Any) -> Any:
        return self.peer.call(command, warehouse=self.warehouse, table=self.name, engine=self.engine, **fields)

    def create(
        self,
        columns: Sequence[tuple[str, TypeJson]],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Create the table by pypaimon, and its database if it is missing; return the JSON of the schema file."""
        answer: dict[str, Any] = self._call(
            "create_table",
            columns=[{"name": name, "type": of} for name, of in columns],
            primary_keys=list(primary_keys),
            partition_keys=list(partition_keys),
            options=dict(options or {}),
        )
        return answer

    def schema(self) -> dict[str, Any]:
        """Return the newest schema in the form of its file."""
        answer: dict[str, Any] = self._call("schema")
        return answer

    def _columns(self, snapshot_id: int | None = None) -> list[tuple[str, PeerType]]:
        fields = self._call("schema", snapshot_id=snapshot_id)["fields"]
        return [(column["name"], parse_type(column["type"])) for column in fields]

    def write(self, rows: Sequence[Row], **arguments: Any) -> None:
        """Write JSON rows; see `write_arrow`."""
        columns = self._columns()
        self.write_arrow(rows_to_table(rows, [name for name, _ in columns], [of for _, of in columns]), **arguments)

    def write_arrow(
        self,
        data: pa.Table,
        *,
        overwrite: Mapping[str, str] | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Write a table in one commit. All rows are inserts, unless `rowkind.field` names a column of kinds."""
        path = self.peer.scratch("write")
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, data.schema) as writer:
            writer.write_table(data)
        self._call(
            "write",
            data=str(path),
            overwrite=None if overwrite is None else dict(overwrite),
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            options=dict(options or {}),
        )

    def update(self, data: pa.Table) -> None:
        """Change columns of the rows of a table with `data-evolution.enabled`, by the column `_ROW_ID`."""
        path = self.peer.scratch("write")
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, data.schema) as writer:
            writer.write_table(data)
        self._call("update", data=str(path), deleted=None)

    def delete_ids(self, row_ids: Sequence[int]) -> None:
        """Delete rows of a table with `data-evolution.enabled` and deletion vectors, by their ids."""
        self._call("update", deleted=list(row_ids))

    def read_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the word that readers of tables expect
        snapshot_id: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Return the table as the engine reads it; the filter is as in JavaTable.read."""
        path = self.peer.scratch("read")
        self._call(
            "read",
            out=str(path),
            columns=None if columns is None else list(columns),
            filter=filter,
            snapshot_id=snapshot_id,
            options=dict(options or {}),
        )
        with pa.OSFile(str(path), "r") as file:
            return pa.ipc.open_file(file).read_all()

    def read(self, *, snapshot_id: int | None = None, **arguments: Any) -> PeerRows:
        """Return the rows of `read_arrow` as JSON."""
        table = self.read_arrow(snapshot_id=snapshot_id, **arguments)
        by_name = dict(self._columns(snapshot_id))
        types = tuple(by_name[name] for name in table.column_names)
        rows = table_to_rows(table, types)
        return PeerRows(names=tuple(table.column_names), types=types, rows=rows, kinds=["+I"] * len(rows))

    def plan(self, *, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        """Return pypaimon's splits: bucket, raw_convertible, files with name, level and row count."""
        answer: list[dict[str, Any]] = self._call("plan", snapshot_id=snapshot_id)
        return answer


class PyPaimon:
    """The process of pypaimon; close it (or leave its `with` block) to end it."""

    def __init__(self, timeout_seconds: float = 120) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-pypaimon-")
        home = Path(self._directory.name)
        self._process = PeerProcess(
            [str(pypaimon_python()), str(INTEROP / "pypaimon_peer.py")],
            home / "stderr.log",
            timeout_seconds,
            # The peer shares the JSON codec, which needs only pyarrow.
            environment={**os.environ, "PYTHONPATH": str(INTEROP.parent.parent), "TZ": "UTC"},
        )

    @property
    def pid(self) -> int:
        """Process id of the interpreter."""
        return self._process.pid

    def call(self, command: str, **fields: Any) -> Any:
        """Send one command. Raises PeerError when pypaimon refuses it."""
        return self._process.call(command, **fields)

    def option_keys(self) -> list[tuple[str, str | None]]:
        """Return key and default (None for none) of each option of tables."""
        return [(key, default) for key, default in self.call("option_keys")]

    def scratch(self, purpose: str) -> Path:
        """Return the path of the next Arrow file of this kind; the file before it is overwritten."""
        return Path(self._directory.name) / f"{purpose}.arrow"

    def table(self, warehouse: str | Path, name: str, engine: Engine = "python") -> PyPaimonTable:
        """Return the table `database.table` of a warehouse directory, without a look-up."""
        return PyPaimonTable(self, str(warehouse), name, engine)

    def rust_sql(self, warehouse: str, statement: str) -> list[list[Any]]:
        """Return the rows of a statement of pypaimon-rust's SQL in the catalog `lake`."""
        rows: list[list[Any]] = self.call("rust_sql", warehouse=warehouse, sql=statement)
        return rows

    def close(self) -> None:
        """End the process of pypaimon."""
        self._process.close()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
