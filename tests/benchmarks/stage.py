"""One stage by one engine, in a separate process; prints its figures as JSON.

    python stage.py ENGINE STAGE DATA_DIRECTORY WAREHOUSE TABLE [FORMAT]

The process runs in the engine's own environment, so only the class of interbed imports interbed. CPU seconds are those
of all threads of this process. Each reading stage is repeated in the process and the minimum counts, because the first
run pays for loading libraries.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.benchmarks import data as rows
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import data as rows

STORE: dict[str, dict[str, str]] = json.loads(os.environ.get("INTERBED_BENCH_STORE", "{}"))
"""Options of the warehouse's object store, by the names of each engine; empty for a local warehouse."""
OPTIONS = {"bucket": "4", "file.format": "parquet", "file.compression": "zstd", "write-only": "true"}
TWO_COLUMNS = ["id", "amount"]
REPEATS = 3
COMMITTED_ROWS = 200_000
COMMIT_ROWS = 1_000
SMALL_UPSERTS = 5


class InterbedEngine:
    """Engine of this project."""

    options: Mapping[str, str] = MappingProxyType({})

    def __init__(self, warehouse: str, table: str) -> None:
        import interbed

        self.catalog = interbed.load_catalog("bench", warehouse=warehouse, **STORE.get("interbed", {}))
        self.warehouse = warehouse
        self.name = table

    def create(self, schema: Any) -> None:
        self.catalog.create_database(self.name.split(".")[0], ignore_if_exists=True)
        self.catalog.create_table(self.name, schema, primary_keys=["id"], options={**OPTIONS, **self.options})

    def write(self, table: Any) -> None:
        self.catalog.get_table(self.name).upsert(table)

    def delete(self, table: Any) -> None:
        import pyarrow as pa

        kinds = pa.array([3], pa.int8()).take(pa.array([0] * table.num_rows))
        self.catalog.get_table(self.name).write_changes(table.append_column("_row_kind", kinds))

    def read(self, columns: list[str] | None, lookup: int | None) -> int:
        text = None if lookup is None else f"id = {lookup}"
        return int(self.catalog.get_table(self.name).scan(columns=columns, filter=text).to_arrow().num_rows)

    def plan(self) -> Callable[[], int]:
        table = self.catalog.get_table(self.name)
        return lambda: sum(len(split.files) for split in table.new_scan().plan().splits)

    def get(self) -> Callable[[int], int]:
        table = self.catalog.get_table(self.name)
        return lambda key: int(table.get(key) is not None)

    def select(self, method: str, keys: list[int]) -> Callable[[], int]:
        low, *_, high = [*keys, *keys]
        text = f"id between {low} and {high}" if method == "between" else f"id in ({', '.join(map(str, keys))})"
        table = self.catalog.get_table(self.name)
        return lambda: int(table.scan(filter=text).to_arrow().num_rows)

    def limit(self, rows: int) -> Callable[[], int]:
        table = self.catalog.get_table(self.name)
        return lambda: int(table.scan(limit=rows).to_arrow().num_rows)

    def stream(self, columns: list[str] | None) -> int:
        reader = self.catalog.get_table(self.name).scan(columns=columns).to_arrow_batch_reader()
        return sum(batch.num_rows for batch in reader)

    def compact(self) -> None:
        self.catalog.get_table(self.name).compact(full=True)

    def decode(self, directory: Path, columns: list[str] | None) -> Callable[[], int]:
        """Return a function that decodes the table's rows from plain Parquet files, one for each bucket."""
        import pyarrow.parquet as pq

        place = directory / "plain"
        if not place.exists():
            place.mkdir()
            table = self.catalog.get_table(self.name).scan().to_arrow()
            part = -(-table.num_rows // 4)
            for number in range(4):
                path, some = place / f"{number}.parquet", table.slice(number * part, part)
                pq.write_table(some, path, compression="zstd", row_group_size=131_072)
        paths = sorted(place.iterdir())
        return lambda: sum(int(pq.ParquetFile(p).read(columns=columns).num_rows) for p in paths)


class CompactingInterbed(InterbedEngine):
    """Engine of this project, with tables that their writer compacts."""

    options = MappingProxyType({"write-only": "false"})


class PyPaimon:
    """Engine of pypaimon itself."""

    def __init__(self, warehouse: str, table: str) -> None:
        import pypaimon

        self.pypaimon = pypaimon
        self.catalog = pypaimon.CatalogFactory.create({"warehouse": warehouse, **STORE.get("pypaimon", {})})
        self.warehouse = warehouse
        self.name = table

    def create(self, schema: Any) -> None:
        self.catalog.create_database(self.name.split(".")[0], True)
        wanted = self.pypaimon.Schema.from_pyarrow_schema(schema, primary_keys=["id"], options=OPTIONS)
        self.catalog.create_table(self.name, wanted, False)

    def write(self, table: Any) -> None:
        builder = self.catalog.get_table(self.name).new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(table.cast(write.table_pyarrow_schema))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def read(self, columns: list[str] | None, lookup: int | None) -> int:
        builder = self.catalog.get_table(self.name).new_read_builder()
        if lookup is not None:
            builder = builder.with_filter(builder.new_predicate_builder().equal("id", lookup))
        if columns is not None:
            builder = builder.with_projection(columns)
        return int(builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows)

    def stream(self, columns: list[str] | None) -> int:
        builder = self.catalog.get_table(self.name).new_read_builder()
        reader = builder.new_read().to_arrow_batch_reader(builder.new_scan().plan().splits())
        return sum(batch.num_rows for batch in reader)


class PyPaimonRust(PyPaimon):
    """Engine of pypaimon-rust by its own API; pypaimon creates the table."""

    def __init__(self, warehouse: str, table: str) -> None:
        super().__init__(warehouse, table)
        from pypaimon_rust.datafusion import PaimonCatalog

        self.rust = PaimonCatalog({"warehouse": warehouse, **STORE.get("pypaimon-rust", {})})

    def _table(self) -> Any:
        return self.rust.get_table(tuple(self.name.split(".")))

    def write(self, table: Any) -> None:
        target = self.catalog.get_table(self.name).new_batch_write_builder().new_write().table_pyarrow_schema
        builder = self._table().new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        for batch in table.cast(target).to_batches():
            write.write_arrow(batch)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def read(self, columns: list[str] | None, lookup: int | None) -> int:
        builder = self._table().new_read_builder({})
        if lookup is not None:
            builder = builder.with_filter({"method": "equal", "field": "id", "literals": [lookup]})
        if columns is not None:
            builder = builder.with_projection(columns)
        batches = builder.new_read().read(builder.new_scan().plan().splits())
        return sum(batch.num_rows for batch in batches)

    def plan(self) -> Callable[[], int]:
        table = self._table()
        return lambda: len(table.new_read_builder({}).new_scan().plan().splits())

    def get(self) -> Callable[[int], int]:
        table = self._table()

        def find(key: int) -> int:
            builder = table.new_read_builder({}).with_filter({"method": "equal", "field": "id", "literals": [key]})
            batches = builder.new_read().read(builder.new_scan().plan().splits())
            return sum(batch.num_rows for batch in batches)

        return find

    def select(self, method: str, keys: list[int]) -> Callable[[], int]:
        table = self._table()

        def find() -> int:
            builder = table.new_read_builder({}).with_filter({"method": method, "field": "id", "literals": keys})
            batches = builder.new_read().read(builder.new_scan().plan().splits())
            return sum(batch.num_rows for batch in batches)

        return find

    def limit(self, rows: int) -> Callable[[], int]:
        table = self._table()

        def first() -> int:
            builder = table.new_read_builder({}).with_limit(rows)
            batches = builder.new_read().read(builder.new_scan().plan().splits())
            found: int = sum(batch.num_rows for batch in batches)
            # Its limit is a hint: it may return more rows.
            return min(rows, found)

        return first

    def stream(self, columns: list[str] | None) -> int:
        builder = self._table().new_read_builder({})
        reader = builder.new_read().read_arrow(builder.new_scan().plan().splits())
        return sum(batch.num_rows for batch in reader)


ENGINES = {
    "interbed": InterbedEngine,
    "interbed, compacting": CompactingInterbed,
    "pypaimon": PyPaimon,
    "pypaimon-rust": PyPaimonRust,
}


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return CPU seconds of all threads, wall seconds, and the result."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def least(measured: list[tuple[float, float, Any]]) -> dict[str, Any]:
    """Return the run with the least CPU time."""
    cpu, wall, result = min(measured, key=lambda m: m[0])
    return {"cpu_s": cpu, "wall_s": wall, "rows": result}


def lookups(get: Callable[[int], int], keys: list[int], *, warm: bool) -> dict[str, Any]:
    """Return the seconds of one lookup of existing keys; with `warm` after each was looked up once."""
    for key in keys if warm else ():
        get(key)
    cpu, wall, found = timed(lambda: sum(get(key) for key in keys))
    return {"cpu_s": cpu / len(keys), "wall_s": wall / len(keys), "rows": found}


def loaded(engine: Any, table: Any) -> Any:
    """Return the engine with another table, after a write of one row: first_calls.py measures the code that writes
    load.
    """
    first = type(engine)(engine.warehouse, f"{engine.name}_{os.getpid()}")
    first.create(table.schema)
    first.write(table.slice(0, 1))
    return first


def warmed(engine: Any, table: str) -> Any:
    """Return the engine with another table, so that loading the code of reads is not measured."""
    return type(engine)(engine.warehouse, table)


def commits(engine: Any, counts: list[int]) -> dict[str, Any]:
    """Return the seconds of a commit (the mean of up to ten), of a plan and of a scan, each after the given numbers of
    commits.
    """
    import numpy as np

    random = np.random.default_rng(3)
    table = rows.rows_for(random.permutation(COMMITTED_ROWS), 1)
    loaded(engine, table)
    engine.create(table.schema)
    engine.write(table)
    found: dict[str, Any] = {}
    done = 1
    for count in counts:
        measured: list[tuple[float, float, Any]] = []
        while done < count or not measured:
            some = rows.rows_for(random.choice(COMMITTED_ROWS, COMMIT_ROWS, replace=False), done)
            measured.append(timed(partial(engine.write, some)))
            done += 1
        last = measured[-10:]
        cpu, wall = (sum(m[i] for m in last) / len(last) for i in (0, 1))
        plan = engine.plan()
        found[f"commit after {count:,}"] = {"cpu_s": cpu, "wall_s": wall, "rows": COMMIT_ROWS}
        found[f"plan after {count:,}"] = least([timed(plan) for _ in range(REPEATS)])
        found[f"scan after {count:,}"] = least([timed(lambda: engine.read(None, None)) for _ in range(REPEATS)])
    return found


def run(engine: Any, stage: str, directory: Path) -> dict[str, Any]:
    """Run one stage, and return its figures."""
    facts = json.loads((directory / "facts.json").read_text())
    match stage:
        case "base write":
            table = rows.read(directory / "base.arrow")
            loaded(engine, table)
            engine.create(table.schema)
            return least([timed(lambda: engine.write(table))])
        case "upsert":
            # One figure for a commit of the size of an upsert.
            tables = [rows.read(directory / f"upsert-{i}.arrow") for i in range(rows.UPSERTS)]
            return least([timed(partial(engine.write, t)) for t in tables])
        case "delete":
            table = rows.read(directory / "delete.arrow")
            loaded(engine, table).delete(table.slice(0, 1))
            return least([timed(lambda: engine.delete(table))])
        case "scan" | "scan after compaction":
            return least([timed(lambda: engine.read(None, None)) for _ in range(REPEATS)])
        case "two columns":
            return least([timed(lambda: engine.read(TWO_COLUMNS, None)) for _ in range(REPEATS)])
        case "cold two columns":
            warmed(engine, facts["other table"]).read(TWO_COLUMNS, None)
            return least([timed(lambda: engine.read(TWO_COLUMNS, None))])
        case "first lookup":
            warmed(engine, facts["other table"]).get()(1)
            return lookups(engine.get(), facts["lookups"][:1], warm=False)
        case "small upserts":
            import numpy as np

            random = np.random.default_rng(4)
            size = facts["rows"]
            some = [rows.rows_for(random.choice(size, COMMIT_ROWS, replace=False), i) for i in range(SMALL_UPSERTS + 1)]
            engine.write(some[0])
            measured = [timed(partial(engine.write, table)) for table in some[1:]]
            cpu, wall = (sum(m[i] for m in measured) / len(measured) for i in (0, 1))
            return {"cpu_s": cpu, "wall_s": wall, "rows": COMMIT_ROWS}
        case "lookup":
            return least([timed(lambda: engine.read(None, facts["lookup"])) for _ in range(REPEATS)])
        case "planning":
            plan = engine.plan()
            plan()
            return least([timed(plan) for _ in range(REPEATS)])
        case "first plan":
            return least([timed(engine.plan())])
        case "warm lookup" | "cold lookup":
            keys = facts["lookups"] if stage == "warm lookup" else facts["lookups"][:1]
            return lookups(engine.get(), keys, warm=stage == "warm lookup")
        case "key range" | "one key" | "ten keys" | "first rows":
            asked = facts[stage]
            work = engine.limit(asked[0]) if stage == "first rows" else engine.select(asked[0], asked[1:])
            return least([timed(work) for _ in range(REPEATS)])
        case "streamed scan":
            return least([timed(lambda: engine.stream(None)) for _ in range(REPEATS)])
        case "compaction":
            return least([timed(engine.compact)])
        case "decoding" | "decoding of two columns":
            decode = engine.decode(directory, TWO_COLUMNS if stage.endswith("columns") else None)
            return least([timed(decode) for _ in range(REPEATS)])
        case "other keys":
            # As lookups, but by a filter; each key is read once.
            first, *others = facts[stage]
            engine.select("in", [first])()
            return lookups(lambda key: engine.select("in", [key])(), others, warm=False)
        case "commits":
            return commits(engine, facts[stage])
    raise SystemExit(f"No stage {stage!r}.")


def peak_mb() -> float:
    """Return the peak memory of this process; getrusage would include its parent's, from before its exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("/proc/self/status has no VmHWM; benchmarks run on Linux.")


def main() -> None:
    """Parse the command line, run the stage, and print the figures."""
    name, stage, directory, warehouse, table, *file_format = sys.argv[1:]
    if file_format:
        OPTIONS["file.format"] = file_format[0]
    figures = run(ENGINES[name](warehouse, table), stage, Path(directory))
    figures["peak_mb"] = peak_mb()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
