"""Access to the golden files for tests: tables, their expected contents, bytes and hashes."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.peers.json import PeerType, TypeJson, parse_type

GOLDEN = Path(__file__).resolve().parent
WAREHOUSE = GOLDEN / "paimon-1.4.2"
DATABASE = "golden"

TABLE_NAMES = tuple(sorted(path.stem for path in (GOLDEN / "expected").glob("*.json")))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecCase:
    """A list of types and rows of them; for each row its BinaryRow and the hash of those bytes."""

    types: tuple[TypeJson, ...]
    rows: list[list[Any]]
    bytes_base64: list[str]
    hashes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCase:
    """Types and rows of a bucket key; for each row its bucket for every one of `num_buckets`."""

    types: tuple[TypeJson, ...]
    rows: list[list[Any]]
    num_buckets: list[int]
    buckets: list[list[int]]
    hashes: list[int]


def table_path(name: str) -> Path:
    """Return the directory of a golden table; it is shared, so a test that writes must use `copy_table`."""
    return WAREHOUSE / f"{DATABASE}.db" / name


def copy_table(name: str, warehouse: Path) -> Path:
    """Copy a table for one test to `warehouse/golden.db`; return the directory of the copy."""
    target = warehouse / f"{DATABASE}.db" / name
    shutil.copytree(table_path(name), target)
    return target


def expected(name: str) -> dict[str, Any]:
    """Return Java Paimon's description of a golden table; README.md names the fields."""
    answer: dict[str, Any] = json.loads((GOLDEN / "expected" / f"{name}.json").read_text())
    return answer


def expected_types(name: str) -> tuple[PeerType, ...]:
    """Return the types of a golden table's newest schema."""
    return tuple(parse_type(field["type"]) for field in expected(name)["fields"])


def codec_cases() -> list[CodecCase]:
    """Return the cases of binary_row.json."""
    return [
        CodecCase(types=tuple(c["types"]), rows=c["rows"], bytes_base64=c["bytes"], hashes=c["hash"])
        for c in json.loads((GOLDEN / "binary_row.json").read_text())
    ]


def bucket_cases(function: str = "default") -> list[BucketCase]:
    """Return the cases of bucket_hash.json for the bucket function `default` or `mod`, which has no hashes."""
    content = json.loads((GOLDEN / "bucket_hash.json").read_text())
    return [
        BucketCase(
            types=tuple(c["types"]),
            rows=c["rows"],
            num_buckets=content["num_buckets"],
            buckets=c["buckets"],
            hashes=c.get("hash", []),
        )
        for c in content[function]
    ]
