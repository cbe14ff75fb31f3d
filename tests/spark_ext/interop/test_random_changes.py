"""After any changes of one table by Spark and Java, all readers return the rows of a model, and the same changes."""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given

from tests.interop.strategies import random_examples
from tests.spark_ext.interop.all_readers import AllReaders, spark_row
from tests.spark_ext.interop.random_changes import (
    ChangeStep,
    RandomChanges,
    Row,
    TableModel,
    Type,
    draw_condition,
    random_changes,
    sql_type,
)
from tests.support.peers.json import parse_type


@dataclass(slots=True)
class ChangeRun:
    """Run of random changes on the table of this name."""

    changes: RandomChanges
    readers: AllReaders
    name: str
    model: TableModel

    def create(self) -> None:
        """Create the table by Spark."""
        properties = {
            **({"primary-key": ",".join(self.changes.keys)} if self.changes.keys else {}),
            **self.changes.options,
        }
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        columns = ", ".join(
            f"{name} {sql_type(of)}{' NOT NULL' if 'NOT NULL' in of else ''}" for name, of in self.model.columns.items()
        )
        self.readers.sql(
            f"CREATE TABLE {{lake}}.{self.name} ({columns}) {'PARTITIONED BY (p)' if self.changes.partitioned else ''} "
            f"TBLPROPERTIES ({listed})"
        )

    def run_step(self, step: ChangeStep) -> None:
        """Run a step, and assert that all readers agree with the model."""
        getattr(self, f"_{step.by}_{step.what}")(random.Random(step.seed))
        types = [parse_type(of) for of in self.model.columns.values()]
        expected = sorted((spark_row(self.model.listed(row), types) for row in self.model.rows), key=repr)
        assert sorted(self.readers.agree(self.name, pypaimon=False), key=repr) == expected, step

    def _sql(self, statement: str) -> None:
        self.readers.sql(statement.replace("{t}", f"{{lake}}.{self.name}"))

    def _spark_insert(self, source: random.Random) -> None:
        rows = self.model.draw_rows(source, 8, distinct=self.model.keys)
        self._sql(f"INSERT INTO {{t}} {self.model.sql_values(rows)}")
        self.model.upsert(rows)

    def _spark_update(self, source: random.Random) -> None:
        condition, chosen = draw_condition(source)
        number = source.randint(0, 9)
        self._sql(f"UPDATE {{t}} SET v = v + {number}, n = CASE WHEN v > 4 THEN n END WHERE {condition}")

        def changed(row: Row) -> Row:
            v = row["v"]
            return {**row, "v": None if v is None else v + number, "n": row["n"] if v is not None and v > 4 else None}

        self.model.update(chosen, changed)

    def _spark_delete(self, source: random.Random) -> None:
        condition, chosen = draw_condition(source)
        self._sql(f"DELETE FROM {{t}} WHERE {condition}")
        self.model.remove(chosen)

    def _spark_merge(self, source: random.Random) -> None:
        key = ("id", "p") if self.changes.partitioned or not self.changes.keys else ("id",)
        rows = self.model.draw_rows(source, 6, distinct=key)
        number = source.randint(0, 9)
        same = " AND ".join(f"t.{name} = s.{name}" for name in key)
        by_source = source.choice(("", "DELETE", "UPDATE SET v = -1"))
        self._sql(
            f"MERGE INTO {{t}} t USING ({self.model.sql_values(rows)}) s ON {same} "
            f"WHEN MATCHED AND s.v > {number} THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v, n = s.n "
            f"WHEN NOT MATCHED AND s.id < {number} THEN INSERT * "
            + (f"WHEN NOT MATCHED BY SOURCE AND t.v < {number} THEN {by_source}" if by_source else "")
        )
        given = {tuple(row[k] for k in key): row for row in rows}
        merged: list[Row] = []
        found = set()
        for row in self.model.rows:
            other = given.get(tuple(row[k] for k in key))
            if other is not None:
                found.add(tuple(row[k] for k in key))
                if other["v"] is None or other["v"] <= number:
                    merged.append({**row, "v": other["v"], "n": other["n"]})
            elif by_source and row["v"] is not None and row["v"] < number:
                merged += [] if by_source == "DELETE" else [{**row, "v": -1}]
            else:
                merged.append(row)
        merged += [row for at, row in given.items() if at not in found and row["id"] < number]
        self.model.rows = merged

    def _spark_overwrite(self, source: random.Random) -> None:
        rows = self.model.draw_rows(source, 6, distinct=self.model.keys)
        if self.changes.partitioned:
            partition = source.choice(("x", "y", "z"))
            rows = [row for row in rows if row["p"] == partition]
            names = [name for name in self.model.columns if name != "p"]
            values = self.model.sql_values(rows or [{**dict.fromkeys(self.model.columns), "id": 0, "p": partition}])
            self._sql(
                f"INSERT OVERWRITE {{t}} PARTITION (p = '{partition}') ({', '.join(names)}) "
                f"SELECT {', '.join(names)} FROM ({values}) WHERE {'true' if rows else 'false'}"
            )
            self.model.remove(lambda row: row["p"] == partition)
        else:
            self._sql(f"INSERT OVERWRITE {{t}} {self.model.sql_values(rows)}")
            self.model.rows = []
        self.model.upsert(rows)

    def _spark_compact(self, source: random.Random) -> None:
        self._sql(f"CALL {{lake}}.sys.compact('{self.name}', compact_strategy => '{source.choice(('full', 'minor'))}')")

    def _spark_truncate(self, _: random.Random) -> None:
        self._sql("TRUNCATE TABLE {t}")
        self.model.rows = []

    def _spark_alter(self, source: random.Random) -> None:
        change = source.choice(("add", "nested", "widen", "rename", "move"))
        columns = self.model.columns
        if change == "add":
            name, of = f"c{len(columns)}", source.choice(("INT", "STRING"))
            self._sql(f"ALTER TABLE {{t}} ADD COLUMN {name} {of} AFTER v")
            self._reshape(lambda names: _after(names, "v", name), {**columns, name: of})
            self.model.rows = [{**row, name: None} for row in self.model.rows]
        elif change == "nested":
            nested = columns["n"]
            assert isinstance(nested, dict)
            name = f"f{len(nested['fields'])}"
            self._sql(f"ALTER TABLE {{t}} ADD COLUMN n.{name} INT")
            columns["n"] = {**nested, "fields": [*nested["fields"], {"id": 0, "name": name, "type": "INT"}]}
            for row in self.model.rows:
                row["n"] = None if row["n"] is None else [*row["n"], None]
        elif change == "widen":
            self._sql("ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT")
            columns["v"] = "BIGINT"
        elif change == "rename":
            old = next(name for name in columns if name.startswith("s"))
            self._sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {old}s")
            self.model.columns = {f"{old}s" if name == old else name: of for name, of in columns.items()}
            self.model.rows = [{f"{old}s" if k == old else k: v for k, v in row.items()} for row in self.model.rows]
        else:
            self._sql("ALTER TABLE {t} ALTER COLUMN n FIRST")
            self._reshape(lambda names: ["n", *(name for name in names if name != "n")], columns)

    def _reshape(self, order: Callable[[list[str]], list[str]], columns: dict[str, Type]) -> None:
        self.model.columns = {name: columns[name] for name in order(list(self.model.columns))}

    def _java_insert(self, source: random.Random) -> None:
        rows = self.model.draw_rows(source, 8)
        self.readers.table(self.name).write([self.model.listed(row) for row in rows])
        self.model.upsert(rows)

    def _java_change(self, source: random.Random) -> None:
        rows = self.model.draw_rows(source, 8)
        kinds = [source.choice(("+I", "+U", "-D")) for _ in rows]
        self.readers.table(self.name).write([self.model.listed(row) for row in rows], kinds=kinds)
        for kind, row in zip(kinds, rows, strict=True):
            if kind == "-D":
                key = self.model.key(row)
                self.model.remove(lambda old, key=key: self.model.key(old) == key)  # type: ignore[misc]
            else:
                self.model.upsert([row])

    def _java_overwrite(self, source: random.Random) -> None:
        rows = self.model.draw_rows(source, 6)
        self.readers.table(self.name).write([self.model.listed(row) for row in rows], overwrite={})
        replaced = {row["p"] for row in rows}
        self.model.remove(lambda row: not self.changes.partitioned or row["p"] in replaced)
        self.model.upsert(rows)

    def _java_compact(self, source: random.Random) -> None:
        self.readers.table(self.name).compact(full=source.choice((True, False)))


def _after(names: list[str], place: str, name: str) -> list[str]:
    at = names.index(place) + 1
    return [*names[:at], name, *names[at:]]


_NUMBERS = itertools.count()


@pytest.mark.long
@random_examples(6)
@given(changes=random_changes())
def test_all_readers_return_the_rows_of_the_model(readers: AllReaders, changes: RandomChanges) -> None:
    run_changes(readers, changes)


def run_changes(readers: AllReaders, changes: RandomChanges) -> None:
    """Run the changes on a separate table."""
    run = ChangeRun(changes, readers, f"db.t{next(_NUMBERS)}", TableModel(changes.keys))
    run.create()
    for step in changes.steps:
        run.run_step(step)
    readers.agree(run.name)
    if changes.options.get("changelog-producer", "none") != "none":
        readers.agree_on_changes(run.name, 1, readers.last_snapshot(run.name))
