"""The marker that ends what a log has of a snapshot: a record in every partition, without key and value.

Readers of Flink's formats pass over records without a value. What the marker says is in its header `interbed`:

    {"from": 7, "to": 8, "uuid": "…", "line": 0, "table": 1718000000000, "records": 3, "schemaId": 0, "told": true}

The records before it, and after the marker before that, are what snapshots `from` to `to` changed; of these `from`
alone may have changed something. `records` is how many there are in the marker's own partition: when retention has cut
off some of them, the rest is not taken for all. Without `told` the snapshots are passed over: their changes are not in
the log, and only the files have what became of the table.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.json_object import read_object

MARKER_HEADER = "interbed"
_MEMBERS = {
    "from": int,
    "to": int,
    "uuid": str,
    "line": int,
    "table": int,
    "records": int,
    "schemaId": int,
    "told": bool,
    "replaces": bool,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMarker:
    """The end of the changes of snapshots `first` to `last`, the uuid of which it has, in one partition.

    `line` counts how often the table was taken back to an earlier snapshot after later ones had been published.
    `table` identifies the table: when its first schema was made, in milliseconds since the epoch. `replaces` says that
    rows were replaced by an overwrite whose changes a stream of the table does not tell.
    """

    first: int
    last: int
    uuid: str | None
    line: int
    table: int
    schema_id: int
    records: int = 0
    told: bool = True
    replaces: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """Markers of one log in their order."""
        return self.line, self.last

    def with_records(self, records: int) -> "LogMarker":
        """The marker of a partition with so many records."""
        return replace(self, records=records)

    def to_json(self) -> bytes:
        """What its header holds."""
        value: dict[str, Any] = {
            "from": self.first,
            "to": self.last,
            "uuid": self.uuid,
            "line": self.line,
            "table": self.table,
            "records": self.records,
            "schemaId": self.schema_id,
            "told": self.told,
            "replaces": self.replaces,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @staticmethod
    def from_json(content: bytes, *, place: str) -> "LogMarker":
        """The marker that a header holds; raises CorruptFileError naming the place."""
        what = "a marker of a table's log"
        value = read_object(content, _MEMBERS, source=f"The header of a record of {place}", what=what)
        try:
            return LogMarker(
                first=value["from"],
                last=value["to"],
                uuid=value.get("uuid"),
                line=value["line"],
                table=value["table"],
                schema_id=value["schemaId"],
                records=value["records"],
                told=value["told"],
                replaces=value.get("replaces", False),
            )
        except KeyError as error:
            raise CorruptFileError(f"The header of a record of {place} is not {what}: it lacks {error}.") from error
