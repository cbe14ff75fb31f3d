"""Random Iceberg tables written by Java: rows and deletes of all kinds, in any order with schema evolution."""

import random
from typing import Any

from tests.support.peers.iceberg import (
    IcebergPeer,
    Operation,
    append,
    deletion_vector,
    equality_delete,
    position_delete,
)

FORMATS = ("parquet", "parquet", "orc", "avro")


class RandomTable:
    """Random operations on one table with columns `id`, `v` and `p`, and columns that are added later."""

    def __init__(self, peer: IcebergPeer, seed: int) -> None:
        self.peer = peer
        self.dice = random.Random(seed)
        self.version = self.dice.choice([2, 2, 3])
        by = self.dice.choice(["", "", "p"])
        self.table = peer.new_table("id INT, v STRING, p INT", self.version, partitioned=by)
        self.partitioned = bool(by)
        self.columns = ["id", "v", "p"]
        self.wide = False
        self.made = 0
        self.has_orc = False

    def step(self) -> None:
        """Apply one random operation."""
        kind = self.dice.choice(["rows", "rows", "keys", "keys", "positions", "upsert", "sql", "evolve"])
        match kind:
            case "rows":
                self.peer.together(self.table, self.rows())
            case "keys":
                self.peer.together(self.table, [self.keys()])
            case "positions":
                self.positions()
            case "upsert":
                self.peer.together(self.table, [*self.rows(), self.keys()])
            case "sql":
                self.statement()
            case _:
                self.evolve()

    def row(self, p: int | None) -> dict[str, Any]:
        """Return a row of a partition."""
        values = {"id": self.dice.choice([None, *range(8)]), "v": self.dice.choice([None, "a", "b", "c"]), "p": p}
        return {name: values.get(name.rstrip("_"), self.dice.choice([None, 1, 2])) for name in self.columns}

    def rows(self) -> list[Operation]:
        """Return the append of one data file."""
        p = self.dice.choice([None, 1, 2])
        rows = [self.row(p) for _ in range(self.dice.randint(1, 12))]
        chosen = self.dice.choice(FORMATS)
        self.has_orc |= chosen == "orc"
        return [append(rows, format=chosen)]  # type: ignore[arg-type]

    def keys(self) -> Operation:
        """Return an equality delete file of some columns."""
        p = self.dice.choice([None, 1, 2])
        columns = self.dice.sample(self.columns, self.dice.randint(1, 2))
        rows = [{name: self.row(p)[name] for name in columns} for _ in range(self.dice.randint(1, 4))]
        partition = [p] if self.partitioned else None
        return equality_delete(columns, rows, partition=partition, format=self.dice.choice(FORMATS))  # type: ignore[arg-type]

    def positions(self) -> None:
        """Commit position deletes or deletion vectors for some data files of one partition."""
        data = [file for file in self.peer.files(self.table) if file.content == "data"]
        if not data:
            return
        chosen = self.dice.choice(data).partition
        some = [file for file in data if file.partition == chosen][:3]
        deletes = [
            (file.path, place)
            for file in some
            for place in sorted(self.dice.sample(range(file.record_count), self.dice.randint(1, file.record_count)))
        ]
        make = deletion_vector if self.version == 3 else position_delete
        self.peer.together(self.table, [make(deletes)])

    def statement(self) -> None:
        """Run a DELETE, UPDATE or INSERT OVERWRITE in Spark, merge-on-read or copy-on-write."""
        mode = self.dice.choice(["merge-on-read", "copy-on-write"])
        properties = ", ".join(f"'write.{kind}.mode'='{mode}'" for kind in ("delete", "update", "merge"))
        self.peer.run(f"ALTER TABLE {self.table} SET TBLPROPERTIES ({properties})")
        key = self.dice.randint(0, 7)
        match self.dice.randint(0, 2):
            case 0:
                self.peer.run(f"DELETE FROM {self.table} WHERE {self.columns[0]} = {key}")
            case 1:
                self.peer.run(f"UPDATE {self.table} SET {self.columns[1]} = 'u' WHERE {self.columns[0]} > {key}")
            case _:
                self.peer.run(f"INSERT OVERWRITE {self.table} SELECT * FROM {self.table} WHERE {self.columns[0]} < 6")

    def evolve(self) -> None:
        """Add, rename, widen or drop a column."""
        match self.dice.randint(0, 3):
            case 0 if len(self.columns) < 6:
                self.made += 1
                name = f"n{self.made}"
                # Java applies no default to columns that an ORC file lacks.
                if self.version == 3 and self.dice.random() < 0.5 and not self.has_orc:
                    self.peer.add_column(self.table, name, "int", 2)
                else:
                    self.peer.run(f"ALTER TABLE {self.table} ADD COLUMN {name} INT")
                self.columns.append(name)
            case 1:
                place = self.dice.randrange(2)
                new = f"{self.columns[place]}_"
                self.peer.run(f"ALTER TABLE {self.table} RENAME COLUMN {self.columns[place]} TO {new}")
                self.columns[place] = new
            case 2 if not self.wide:
                self.peer.run(f"ALTER TABLE {self.table} ALTER COLUMN {self.columns[0]} TYPE BIGINT")
                self.wide = True
            case _ if len(self.columns) > 3:
                self.peer.run(f"ALTER TABLE {self.table} DROP COLUMN {self.columns.pop()}")
            case _:
                pass
