"""The golden files agree with Java Paimon."""

from typing import Any

import pytest

from tests.golden.load import (
    DATABASE,
    TABLE_NAMES,
    WAREHOUSE,
    bucket_cases,
    codec_cases,
    expected,
)
from tests.golden.tables import TABLES
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import Engine, PyPaimon


def test_every_recipe_has_a_golden_table() -> None:
    assert set(TABLE_NAMES) == set(TABLES)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_java_reads_the_expected_rows_of_every_snapshot(java_paimon: JavaPaimon, name: str) -> None:
    table = java_paimon.table(WAREHOUSE, f"{DATABASE}.{name}")
    expectation = expected(name)
    assert table.read().comparable() == expectation["latest"]["rows"]
    for snapshot in expectation["snapshots"]:
        seen = table.read(snapshot_id=snapshot["id"])
        assert list(seen.names) == snapshot["columns"]
        assert seen.comparable() == snapshot["rows"]


# Types that README.md lists as unreadable for them: MULTISET; nanoseconds in a merge; FLOAT partitions;
# column files of Java in Avro, or whose columns were renamed since.
UNREADABLE = {
    "python": {"pk_all_types", "append_unaware", "pk_all_key_types", "append_columns"},
    "rust": {"pk_all_types", "append_unaware", "typed_partitions", "typed_partitions_legacy", "append_columns"},
}


@pytest.mark.parametrize(
    ("engine", "name"),
    [(engine, name) for engine, not_read in UNREADABLE.items() for name in TABLE_NAMES if name not in not_read],
)
def test_pypaimon_reads_the_expected_rows_of_every_snapshot(pypaimon: PyPaimon, engine: Engine, name: str) -> None:
    table = pypaimon.table(WAREHOUSE, f"{DATABASE}.{name}", engine)
    for snapshot in expected(name)["snapshots"]:
        assert table.read(snapshot_id=snapshot["id"]).comparable() == snapshot["rows"]


def test_java_hashes_and_encodes_the_golden_rows_alike(java_paimon: JavaPaimon) -> None:
    for case in codec_cases():
        answers = java_paimon.binary_rows(case.types, case.rows)
        assert [answer["bytes"] for answer in answers] == case.bytes_base64
        assert [answer["hash"] for answer in answers] == case.hashes


@pytest.mark.parametrize("function", ["default", "mod"])
def test_java_puts_the_golden_rows_into_the_same_buckets(java_paimon: JavaPaimon, function: str) -> None:
    options: dict[str, Any] = {"bucket-function.type": function}
    for case in bucket_cases(function):
        answers = java_paimon.buckets(case.types, case.rows, case.num_buckets, options)
        assert [answer["buckets"] for answer in answers] == case.buckets
