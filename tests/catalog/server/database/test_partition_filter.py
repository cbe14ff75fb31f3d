"""Filters in SQL select the same partitions as the same filters evaluated in Python, for random tables, values and
filters.

The databases are SQLite and PostgreSQL.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interbed.catalog.server.service.model import MetastoreColumn, MetastorePartition, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.names import partition_name
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated
from tests.support.examples import examples
from tests.support.servers.metastore import BACKENDS, migrated_database

DEFAULT = "__HIVE_DEFAULT_PARTITION__"
# The fifth and the sixth key have no index column of their own.
KEYS = tuple(
    MetastoreColumn(name=name, type=kind)
    for name, kind in (
        ("t", "string"),
        ("n", "bigint"),
        ("d", "date"),
        ("u", "varchar(20)"),
        ("w", "string"),
        ("m", "int"),
    )
)


@pytest.fixture(scope="module", params=BACKENDS)
def metastore(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """Open a metastore on each kind of database."""
    directory: Path = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        store = open_migrated(f"sqlite:///{directory / 'metastore.db'}")
    else:
        store = open_migrated(migrated_database(request.getfixturevalue("postgres_url")))
    made = Metastore(store, f"file:{directory / 'warehouse'}")
    made.databases.bootstrap()
    yield made
    store.close()


texts = st.one_of(
    st.sampled_from(
        ["a", "b", "ab", "a%b", "a_b", "A", "ä", "a'b", 'a"b', "a\\b", "[a]", "*", "日本", "a.b", "_", DEFAULT]
    ),
    # Values contain no control characters but those that Hive escapes.
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], include_characters="\n\t\x1b\x7f"),
        min_size=1,
        max_size=4,
    ),
)
numbers = st.one_of(st.sampled_from(["0", "7", "007", "-3", "10", "x", DEFAULT]), st.integers(-99, 99).map(str))
dates = st.one_of(
    st.dates(date(2023, 12, 30), date(2024, 1, 3)).map(str), st.sampled_from(["2024-1-1", "soon", DEFAULT])
)
rows = st.lists(
    st.tuples(texts, numbers, dates, texts, texts, numbers), min_size=1, max_size=12, unique_by=lambda row: row
)


@dataclass(frozen=True)
class FilterClause:
    """Filter as text, and as a predicate in three-valued logic on a row: None is unknown."""

    text: str
    holds: Callable[[Sequence[str]], bool | None]


def quoted(value: str) -> str | None:
    """Return the value as a literal, or None: a backslash before the closing quote cannot be written."""
    if value.endswith("\\") or ("\\" in value and ('"' in value or "'" in value)):
        return None
    return f'"{value}"' if '"' not in value else f"'{value}'" if "'" not in value else None


def typed(position: int, value: str) -> Any:
    """Return the row's value in the type of the key, or None if it is not of that type."""
    kind = KEYS[position].type
    if kind in ("bigint", "int"):
        return int(value) if re.fullmatch("-?[0-9]+", value) else None
    if kind == "date":
        match = re.fullmatch(r"(\d+)-(\d+)-(\d+)", value)
        return date(int(match[1]), int(match[2]), int(match[3])) if match else None
    return value


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def known(position: int, test: Callable[[Any], bool]) -> Callable[[Sequence[str]], bool | None]:
    """Return the test on a row's value; its result is unknown where the value is None."""

    def holds(row: Sequence[str]) -> bool | None:
        value = typed(position, row[position])
        return None if value is None else test(value)

    return holds


@st.composite
def literals(draw: st.DrawFn, position: int) -> tuple[str, Any]:
    """Generate a literal and its value."""
    kind = KEYS[position].type
    if kind in ("bigint", "int"):
        number = draw(st.integers(-12, 12))
        return draw(st.sampled_from([f"{number}", f"'{number}'"])), number
    if kind == "date":
        day = draw(st.dates(date(2023, 12, 30), date(2024, 1, 3)))
        return draw(st.sampled_from([f"{day}", f"'{day}'", f"DATE '{day}'"])), day
    value = draw(texts.filter(lambda text: quoted(text) is not None and "\\" not in text))
    return str(quoted(value)), value


@st.composite
def clauses(draw: st.DrawFn) -> FilterClause:
    """Generate a single comparison."""
    position = draw(st.integers(0, len(KEYS) - 1))
    key = KEYS[position].name
    kind = draw(st.sampled_from(["compared", "mirrored", "between", "in", "like", "default"]))
    is_text = KEYS[position].type not in ("bigint", "int", "date")
    if kind == "like" and is_text:
        return draw(likes(position))
    if kind == "default" and not is_text:
        operator = draw(st.sampled_from(["=", "!="]))
        absent = known(position, lambda value: True)
        return FilterClause(f"{key} {operator} '{DEFAULT}'", lambda row: (absent(row) is None) == (operator == "="))
    if kind == "between":
        (low_text, low), (high_text, high) = draw(literals(position)), draw(literals(position))
        negated = draw(st.booleans())
        text = f"{key} {'not ' if negated else ''}between {low_text} and {high_text}"
        return FilterClause(text, known(position, lambda value: (low <= value <= high) != negated))
    if kind == "in":
        chosen = draw(st.lists(literals(position), min_size=1, max_size=4))
        negated = draw(st.booleans())
        values = [value for _, value in chosen]
        text = f"({key}) {'not ' if negated else ''}in ({', '.join(text for text, _ in chosen)})"
        return FilterClause(text, known(position, lambda value: (value in values) != negated))
    operator = draw(st.sampled_from(sorted(OPERATORS)))
    literal, operand = draw(literals(position))
    if kind == "mirrored":
        other = MIRRORED.get(operator, operator)
        return FilterClause(
            f"{literal} {operator} {key}", known(position, lambda value: OPERATORS[other](value, operand))
        )
    return FilterClause(
        f"{key} {operator} {literal}", known(position, lambda value: OPERATORS[operator](value, operand))
    )


@st.composite
def likes(draw: st.DrawFn, position: int) -> FilterClause:
    """Generate a LIKE clause with a random pattern."""
    parts = draw(
        st.lists(st.sampled_from(["a", "b", "%", "_", ".*", "A", "ä", "[a", "*", "?", r"\%", r"\_", "."]), max_size=5)
    )
    expression = ""
    for part in parts:
        expression += {"%": ".*", ".*": ".*", "_": ".", r"\%": "%", r"\_": "_"}.get(part) or re.escape(part)
    negated = draw(st.booleans())
    # A literal dot followed by a literal star is Hive's older way to write "any text".
    pattern = re.compile(expression.replace(r"\.\*", ".*"), re.DOTALL)
    text = f"{KEYS[position].name} {'not ' if negated else ''}like '{''.join(parts)}'"
    return FilterClause(text, known(position, lambda value: (pattern.fullmatch(value) is not None) != negated))


def conjunction(parts: list[FilterClause]) -> FilterClause:
    """Return the conjunction of the clauses."""

    def holds(row: Sequence[str]) -> bool | None:
        found = [part.holds(row) for part in parts]
        return False if False in found else None if None in found else True

    return FilterClause(" and ".join(f"({part.text})" for part in parts), holds)


def disjunction(parts: list[FilterClause]) -> FilterClause:
    """Return the disjunction of the clauses."""

    def holds(row: Sequence[str]) -> bool | None:
        found = [part.holds(row) for part in parts]
        return True if True in found else None if None in found else False

    return FilterClause(" or ".join(f"({part.text})" for part in parts), holds)


def negation(part: FilterClause) -> FilterClause:
    """Return the negation of the clause."""

    def holds(row: Sequence[str]) -> bool | None:
        found = part.holds(row)
        return None if found is None else not found

    return FilterClause(f"not ({part.text})", holds)


filters = st.recursive(
    clauses(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(conjunction),
        st.lists(inner, min_size=2, max_size=3).map(disjunction),
        inner.map(negation),
    ),
    max_leaves=5,
)

_tables = iter(range(1_000_000))


def filled(metastore: Metastore, values: Sequence[Sequence[str]]) -> tuple[str, str, str]:
    """Create a table with these partitions."""
    name = f"t{next(_tables)}"
    metastore.tables.create(
        MetastoreTable(database="default", name=name, partition_keys=KEYS, table_type="VIRTUAL_VIEW")
    )
    key = ("hive", "default", name)
    storage = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),))
    metastore.partitions.add(key, [MetastorePartition(values=tuple(row), storage=storage) for row in values])
    return key


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(values=rows, chosen=st.lists(filters, min_size=1, max_size=12))
def test_sql_and_python_select_the_same_partitions(
    metastore: Metastore, values: list[tuple[str, ...]], chosen: list[FilterClause]
) -> None:
    key = filled(metastore, values)
    for clause in chosen:
        expected = [row for row in values if clause.holds(row)]
        names = sorted(partition_name(KEYS, row) for row in expected)
        assert metastore.partitions.names_filter(key, clause.text) == names, clause.text
        assert metastore.partitions.count_filter(key, clause.text) == len(names)
        selected = metastore.partitions.select_filter(key, clause.text)[1]
        assert sorted(each.values for each in selected) == sorted(expected)
        assert metastore.partitions.names_filter(key, clause.text, 2) == names[:2]


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=rows, data=st.data())
def test_partial_values_select_exactly_the_matching_partitions(
    metastore: Metastore, values: list[tuple[str, ...]], data: st.DataObject
) -> None:
    key = filled(metastore, values)
    chosen = list(data.draw(st.sampled_from(values)))
    for position in range(len(chosen)):
        if data.draw(st.booleans()):
            chosen[position] = ""
    wanted = chosen[: data.draw(st.integers(1, len(chosen)))]
    expected = [row for row in values if all(want in ("", value) for want, value in zip(wanted, row, strict=False))]
    assert metastore.partitions.names_partial(key, wanted) == sorted(partition_name(KEYS, row) for row in expected)


@pytest.mark.parametrize(
    ("filter_text", "chosen"),
    [
        ('t = ""', [0, 3]),
        ("'' = t", [0, 3]),
        ('w = ""', [0]),
        ('t <> ""', [1, 2]),
        ('not (t = "")', [1, 2]),
        ('t <= ""', [0, 3]),
        ('t > ""', [1, 2]),
        ('t >= ""', [0, 1, 2, 3]),
        ('t in ("", "a")', [0, 1, 3]),
        ('t not in ("", "a")', [2]),
        ('t like ""', [0, 3]),
        ('t not like ""', [1, 2]),
        ('t between "" and "b"', [0, 1, 2, 3]),
        (f't = "" and n = 1 and t <> "{DEFAULT}x"', [0]),
    ],
)
def test_an_empty_text_selects_partitions_that_were_added_with_it(
    metastore: Metastore, filter_text: str, chosen: list[int]
) -> None:
    # Hive compares the value that a partition was added with; an empty one and the default one share their name.
    values = [
        ("", "1", "2024-01-01", "u", "", "1"),
        ("a", "1", "2024-01-01", "u", DEFAULT, "1"),
        (DEFAULT, "2", "2024-01-01", "u", "w", "1"),
        ("", "3", "2024-01-01", "u", "w", "1"),
    ]
    key = filled(metastore, values)
    found = metastore.partitions.select_filter(key, filter_text)[1]
    assert sorted(each.values for each in found) == sorted(values[i] for i in chosen)
