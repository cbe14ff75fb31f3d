"""Regenerate the golden files with Java Paimon: `python -m tests.golden.regenerate`, from the repository's root.

It needs Maven and a JDK 17. README.md in this folder describes the files.
"""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.golden.tables import TABLES, TableRecipe
from tests.golden.values import COMPOSITES, NESTED, SCALARS
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.peers.json import TypeJson, comparable

GOLDEN = Path(__file__).resolve().parent
WAREHOUSE = GOLDEN / "paimon-1.4.2"
EXPECTED = GOLDEN / "expected"
DATABASE = "golden"
NUM_BUCKETS = (1, 2, 3, 4, 7, 16, 128, 1000)


def write_json(path: Path, value: Any) -> None:
    """Write JSON with one line for each item of the outer lists, for readable differences."""
    path.write_text(_pretty(value, 0) + "\n")


def _pretty(value: Any, depth: int) -> str:
    pad = "  " * (depth + 1)
    if isinstance(value, dict) and value and depth < 4:
        items = [f"{pad}{json.dumps(k)}: {_pretty(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + "  " * depth + "}"
    if isinstance(value, list) and value and depth < 4 and isinstance(value[0], list | dict):
        items = [f"{pad}{_pretty(v, depth + 1) if isinstance(v, dict) else _line(v)}" for v in value]
        return "[\n" + ",\n".join(items) + "\n" + "  " * depth + "]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def make_table(java: JavaPaimon, warehouse: Path, name: str, recipe: TableRecipe) -> dict[str, Any]:
    """Run a recipe; return the expected rows of each snapshot, and the files of the last one."""
    table = java.table(warehouse, f"{DATABASE}.{name}")
    table.create(
        recipe.columns,
        primary_keys=recipe.primary_keys,
        partition_keys=recipe.partition_keys,
        options=recipe.options,
    )
    for step in recipe.steps:
        step(table)
    return expected(table)


def expected(table: JavaTable) -> dict[str, Any]:
    """Return the schema, each snapshot's rows and the plan of the latest, as Java Paimon reads them."""
    schema = table.schema()
    snapshots = []
    for snapshot in table.snapshots():
        seen = table.read(snapshot_id=snapshot["id"])
        snapshots.append(
            {
                "id": snapshot["id"],
                "kind": snapshot["commitKind"],
                "total_record_count": snapshot["totalRecordCount"],
                "columns": list(seen.names),
                "rows": seen.comparable(),
            }
        )
    latest = table.read()
    more = {}
    if schema["options"].get("row-tracking.enabled") == "true":
        more = {"row_ids": [{"id": s["id"], "rows": row_ids(table, s["id"])} for s in snapshots]}
    return {
        "fields": schema["fields"],
        "primary_keys": schema["primaryKeys"],
        "partition_keys": schema["partitionKeys"],
        "options": {k: v for k, v in schema["options"].items() if k != "path"},
        "latest": {"columns": list(latest.names), "rows": comparable(latest.rows, latest.types)},
        "snapshots": snapshots,
        "plan": [
            {**split, "bucket_path": split["bucket_path"].partition(f"{DATABASE}.db/")[2]} for split in table.plan()
        ],
        **more,
    }


def row_ids(table: JavaTable, snapshot_id: int) -> list[list[Any]]:
    """Return the first column, the row id and the sequence number of the rows of a snapshot, ordered by row ids."""
    view = replace(table, name=f"{table.name}$row_tracking")
    rows = view.read_table(options={"scan.snapshot-id": str(snapshot_id)}).rows
    return sorted(([row[0], *row[-2:]] for row in rows), key=lambda row: int(row[1]))


def make_tables(java: JavaPaimon) -> None:
    """Write every golden table and its expectation."""
    with tempfile.TemporaryDirectory(prefix="interbed-golden-") as temporary:
        expectations = {name: make_table(java, Path(temporary), name, recipe) for name, recipe in TABLES.items()}
        shutil.rmtree(WAREHOUSE, ignore_errors=True)
        # Hadoop's local file system leaves hidden checksum files, which do not belong to a table.
        shutil.copytree(temporary, WAREHOUSE, ignore=shutil.ignore_patterns(".*.crc"))
    shutil.rmtree(EXPECTED, ignore_errors=True)
    EXPECTED.mkdir()
    for name, expectation in expectations.items():
        write_json(EXPECTED / f"{name}.json", expectation)


def cases() -> list[tuple[list[TypeJson], list[list[Any]]]]:
    """Return types and rows for the codec and the hash: each type alone, with null, and together."""
    alone: list[tuple[list[TypeJson], list[list[Any]]]] = [
        ([of], [[None], *([value] for value in values)]) for of, values in [*SCALARS.items(), *NESTED]
    ]
    return [*alone, *COMPOSITES]


def make_binary_rows(java: JavaPaimon) -> None:
    """Write the cases of binary_row.json."""
    out = []
    for types, rows in cases():
        answers = java.binary_rows(types, rows)
        out.append({"types": types, "rows": rows, **_columns(answers, "bytes", "hash")})
    write_json(GOLDEN / "binary_row.json", out)


def make_bucket_hashes(java: JavaPaimon) -> None:
    """Write the cases of bucket_hash.json."""
    out = []
    for types, rows in cases():
        answers = java.buckets(types, rows, NUM_BUCKETS)
        out.append({"types": types, "rows": rows, **_columns(answers, "hash", "buckets")})
    mod = []
    for of in ("INT", "BIGINT"):
        rows = [[value] for value in SCALARS[of]]
        answers = java.buckets([of], rows, NUM_BUCKETS, {"bucket-function.type": "mod"})
        mod.append({"types": [of], "rows": rows, **_columns(answers, "buckets")})
    write_json(GOLDEN / "bucket_hash.json", {"num_buckets": list(NUM_BUCKETS), "default": out, "mod": mod})


def _columns(answers: list[dict[str, Any]], *keys: str) -> dict[str, list[Any]]:
    return {key: [answer[key] for answer in answers] for key in keys}


def main() -> None:
    """Regenerate all golden files."""
    with JavaPaimon() as java:
        make_tables(java)
        make_binary_rows(java)
        make_bucket_hashes(java)


if __name__ == "__main__":
    main()
