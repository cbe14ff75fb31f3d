"""Random tables for Hypothesis: types, rows, and commits of changes, in the JSON of tests/support/peers/json.py."""

import base64
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.support.examples import examples
from tests.support.peers.json import PeerType, TypeJson, float_text, parse_type

_EXPLORED = os.environ.get("INTERBED_TEST_RANDOM_EXAMPLES")


def random_examples(number: int) -> settings:
    """Return Hypothesis settings for a number of examples.

    Examples are the same in every run. A number in the environment variable replaces them by that many new ones.
    """
    return settings(
        max_examples=int(_EXPLORED or examples(number)),
        derandomize=_EXPLORED is None,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


RANDOM = random_examples(25)

Allows = Callable[[TypeJson], bool]
Change = tuple[str, list[Any]]

_SIMPLE = ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES", "DATE"]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_NANOS_PER_SECOND = 10**9
# Arrow's nanoseconds end in 2262; Python's years are 1 to 9999.
_NANOSECOND_RANGE = (-9_223_372_036 * _NANOS_PER_SECOND, 9_223_372_036 * _NANOS_PER_SECOND)
_YEAR_RANGE = (-62_135_596_800 * _NANOS_PER_SECOND, 253_402_300_799 * _NANOS_PER_SECOND)


@st.composite
def scalar_types(draw: st.DrawFn) -> str:
    """Generate a type without children."""
    kind = draw(st.sampled_from([*_SIMPLE, "DECIMAL", "TEXT", "BINARY", "TIMESTAMP", "TIME"]))
    match kind:
        case "DECIMAL":
            precision = draw(st.integers(1, 38))
            return f"DECIMAL({precision}, {draw(st.integers(0, precision))})"
        case "TEXT":
            return f"{draw(st.sampled_from(['CHAR', 'VARCHAR']))}({draw(st.integers(1, 12))})"
        case "BINARY":
            return f"{draw(st.sampled_from(['BINARY', 'VARBINARY']))}({draw(st.integers(1, 12))})"
        case "TIMESTAMP":
            zone = draw(st.sampled_from(["", " WITH LOCAL TIME ZONE"]))
            return f"TIMESTAMP({draw(st.integers(0, 9))}){zone}"
        case "TIME":
            return f"TIME({draw(st.integers(0, 3))})"
        case _:
            return kind


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> TypeJson:
    """Generate any type, nested at most `depth` times."""
    roots = ["SCALAR"] * 6 + (["ARRAY", "MAP", "MULTISET", "ROW"] if depth else [])
    root = draw(st.sampled_from(roots))
    match root:
        case "ARRAY":
            return {"type": "ARRAY", "element": draw(_maybe_not_null(types(depth - 1)))}
        case "MAP":
            return {"type": "MAP", "key": draw(_key_types()), "value": draw(_maybe_not_null(types(depth - 1)))}
        case "MULTISET":
            return {"type": "MULTISET", "element": draw(_key_types())}
        case "ROW":
            children = draw(st.lists(_maybe_not_null(types(depth - 1)), min_size=1, max_size=3))
            return {"type": "ROW", "fields": [{"id": i, "name": f"n{i}", "type": of} for i, of in enumerate(children)]}
        case _:
            return draw(scalar_types())


def _key_types() -> SearchStrategy[str]:
    # Keys of maps are never null, and never floats: the equality of 0.0 and -0.0 is covered by another test.
    return scalar_types().filter(lambda of: of not in ("FLOAT", "DOUBLE")).map(lambda of: f"{of} NOT NULL")


@st.composite
def _maybe_not_null(draw: st.DrawFn, inner: SearchStrategy[TypeJson]) -> TypeJson:
    return not_null(draw(inner)) if draw(st.integers(0, 4)) == 0 else draw(inner)


def not_null(of: TypeJson) -> TypeJson:
    """Return the type as NOT NULL."""
    return {**of, "type": f"{of['type']} NOT NULL"} if isinstance(of, dict) else f"{of} NOT NULL"


def values(of: PeerType) -> SearchStrategy[Any]:
    """Generate JSON values of a type, nulls included for nullable types."""
    present = _present(of)
    return st.one_of(st.none(), present, present, present) if of.nullable else present


def key_values(of: PeerType) -> SearchStrategy[Any]:
    """Generate values of a type for keys and partitions; of floats only those with the same text in every version of
    Java.

    Java Paimon takes 0.0 and -0.0 for one key when it merges files, and NaN for any. Long floats have other names in
    partitions of Java 17 than of Java 19.
    """
    if of.root not in ("FLOAT", "DOUBLE"):
        return values(of)
    present = st.integers(-10_000, 10_000).map(lambda quarters: float_text(quarters / 4))
    return st.one_of(st.none(), present, present) if of.nullable else present


def _present(of: PeerType) -> SearchStrategy[Any]:
    match of.root:
        case "BOOLEAN":
            return st.booleans()
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[of.root]
            return st.integers(-(2**bits), 2**bits - 1)
        case "FLOAT" | "DOUBLE":
            width: Literal[32, 64] = 32 if of.root == "FLOAT" else 64
            return st.floats(width=width).map(float_text)
        case "DECIMAL":
            precision, scale = of.arguments
            limit = 10**precision - 1
            return st.integers(-limit, limit).map(lambda n: _decimal(n, scale))
        case "CHAR":
            length = of.arguments[0]
            return st.text(st.characters(exclude_categories=["Cs"]), min_size=length, max_size=length)
        case "VARCHAR":
            return st.text(st.characters(exclude_categories=["Cs"]), max_size=min((*of.arguments, 12)[0], 12))
        case "BINARY":
            return st.binary(min_size=of.arguments[0], max_size=of.arguments[0]).map(_base64)
        case "VARBINARY":
            return st.binary(max_size=min((*of.arguments, 12)[0], 12)).map(_base64)
        case "DATE":
            return st.integers(-719_162, 2_932_896)
        case "TIME":
            step = 10 ** (3 - of.arguments[0])
            return st.integers(0, 86_400_000 // step - 1).map(lambda n: n * step)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            step = 10 ** (9 - of.arguments[0])
            low, high = _NANOSECOND_RANGE if of.arguments[0] > 6 else _YEAR_RANGE
            return st.integers(low // step, high // step).map(lambda n: n * step)
        case "ARRAY":
            return st.lists(values(of.children[0]), max_size=3)
        case "MAP" | "MULTISET":
            item = st.integers(1, 5) if of.root == "MULTISET" else values(of.children[1])
            pairs = st.lists(
                st.tuples(_present(of.children[0]), item), max_size=3, unique_by=lambda p: json.dumps(p[0])
            )
            return pairs.map(lambda drawn: [list(pair) for pair in drawn])
        case "ROW":
            return st.tuples(*(values(child) for child in of.children)).map(list)
        case _:
            raise ValueError(of.root)


def _decimal(unscaled: int, scale: int) -> str:
    return f"{Decimal(unscaled).scaleb(-scale):f}" if unscaled.bit_length() < 90 else _long_decimal(unscaled, scale)


def _long_decimal(unscaled: int, scale: int) -> str:
    # Decimal's default context keeps 28 digits, fewer than DECIMAL(38).
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else f"{sign}{digits}"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """A table and its commits of changes; a change is a kind (`+I`, `-D`) and a row."""

    columns: list[tuple[str, TypeJson]]
    primary_keys: list[str]
    partition_keys: list[str]
    options: dict[str, str]
    commits: list[list[Change]]
    types: tuple[PeerType, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(parse_type(of) for _, of in self.columns))

    def key_of(self, row: list[Any]) -> str:
        """Return the key by which rows replace one another."""
        at = [i for i, (name, _) in enumerate(self.columns) if name in self.primary_keys]
        return json.dumps([row[i] for i in at])

    def rows_after(self, commits: int) -> list[list[Any]]:
        """Return the rows that a reader finds after that many commits."""
        changes = [change for commit in self.commits[:commits] for change in commit]
        if not self.primary_keys:
            return [row for _, row in changes]
        model: dict[str, list[Any]] = {}
        for kind, row in changes:
            if kind == "-D":
                model.pop(self.key_of(row), None)
            else:
                model[self.key_of(row)] = row
        return list(model.values())


FILE_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "data-file.thin-mode": st.just("true"),
        "file.compression": st.sampled_from(["snappy", "gzip", "none"]),
        "metadata.stats-mode": st.sampled_from(["full", "none", "counts", "truncate(3)"]),
        "metadata.stats-dense-store": st.just("false"),
    },
)


@st.composite
def keyed_histories(
    draw: st.DrawFn,
    *,
    value: Allows,
    key: Allows,
    partition: Allows,
    options: dict[str, str] | None = None,
    dynamic: bool = False,
) -> TableHistory:
    """Generate a primary-key table with several commits of inserts, updates and deletes of few keys.

    Buckets are fixed or, with `dynamic`, perhaps dynamic ones that fill up soon.
    """
    fixed = st.integers(1, 3).map(lambda buckets: {"bucket": str(buckets)})
    buckets = fixed | st.just({"dynamic-bucket.target-row-num": "2"}) if dynamic else fixed
    keys = draw(st.lists(scalar_types().filter(key), min_size=1, max_size=2))
    partitions = draw(st.lists(scalar_types().filter(partition), max_size=1))
    others = draw(st.lists(_maybe_not_null(types().filter(value)), min_size=1, max_size=4))
    columns: list[tuple[str, TypeJson]] = [
        *((f"k{i}", not_null(of)) for i, of in enumerate(keys)),
        *((f"p{i}", not_null(of)) for i, of in enumerate(partitions)),
        *((f"v{i}", of) for i, of in enumerate(others)),
    ]
    columns = draw(st.permutations(columns))
    primary = [name for name, _ in columns if name[0] in "pk"]
    parsed = {name: parse_type(of) for name, of in columns}
    identities = draw(
        st.lists(
            st.fixed_dictionaries({name: key_values(parsed[name]) for name in primary}),
            min_size=1,
            max_size=6,
            unique_by=json.dumps,
        )
    )
    others_of = st.fixed_dictionaries({name: values(parsed[name]) for name, _ in columns if name not in primary})
    changes = st.tuples(
        st.sampled_from(["+I", "+I", "+I", "-D"]),
        st.tuples(st.sampled_from(identities), others_of).map(lambda parts: _row(columns, {**parts[0], **parts[1]})),
    )
    return TableHistory(
        columns=columns,
        primary_keys=draw(st.permutations(primary)),
        partition_keys=[name for name, _ in columns if name.startswith("p")],
        options={**draw(buckets), **draw(FILE_OPTIONS), **(options or {})},
        commits=draw(st.lists(st.lists(changes, min_size=1, max_size=8), min_size=1, max_size=4)),
    )


@st.composite
def append_histories(
    draw: st.DrawFn, *, value: Allows, key: Allows, partition: Allows, null_partition_with_buckets: bool = True
) -> TableHistory:
    """Generate a table without a primary key, with or without buckets, with several commits of rows."""
    bucketed = draw(st.booleans())
    partitions_are_null = null_partition_with_buckets or not bucketed
    partitions = draw(st.lists(scalar_types().filter(partition), max_size=1))
    others = draw(st.lists(_maybe_not_null(types().filter(value)), min_size=1, max_size=4))
    columns: list[tuple[str, TypeJson]] = [
        ("k0", draw(scalar_types().filter(key))),
        *((f"p{i}", of if partitions_are_null else not_null(of)) for i, of in enumerate(partitions)),
        *((f"v{i}", of) for i, of in enumerate(others)),
    ]
    columns = draw(st.permutations(columns))
    options = {**draw(FILE_OPTIONS), **({"bucket": "2", "bucket-key": "k0"} if bucketed else {})}
    rows = st.tuples(
        *(key_values(parse_type(of)) if name[0] == "p" else values(parse_type(of)) for name, of in columns)
    ).map(lambda row: ("+I", list(row)))
    return TableHistory(
        columns=columns,
        primary_keys=[],
        partition_keys=[name for name, _ in columns if name.startswith("p")],
        options=options,
        commits=draw(st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=3)),
    )


def _row(columns: list[tuple[str, TypeJson]], by_name: dict[str, Any]) -> list[Any]:
    return [by_name[name] for name, _ in columns]
