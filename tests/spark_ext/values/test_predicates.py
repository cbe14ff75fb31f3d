"""Filters of Spark become predicates if both have the same meaning, and are left to Spark otherwise."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from interbed.spark_ext.values.predicates import FilterHandling, conjunction_of, handling_of, partition_of, predicate_of
from interbed.storage.base.predicate.expr import columns_of, text_of
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import ArrayType, AtomicType, DataField, TypeRoot, parse_atomic

FIELDS = [
    DataField(id=i, name=name, type=parse_atomic(kind))
    for i, (name, kind) in enumerate(
        {
            "id": "INT",
            "name": "STRING",
            "amount": "DECIMAL(10, 2)",
            "score": "DOUBLE",
            "ratio": "FLOAT",
            "day": "DATE",
            "at": "TIMESTAMP(6)",
            "instant": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            "fine": "TIMESTAMP(9)",
            "clock": "TIME(3)",
            "code": "CHAR(3)",
            "raw": "BYTES",
            "flag": "BOOLEAN",
            "dt": "STRING",
            "hour": "INT",
        }.items()
    )
]
FIELDS.append(DataField(id=99, name="list", type=ArrayType(AtomicType(TypeRoot.INT))))
FIELDS.append(DataField(id=98, name="place", type=data_type("ROW<city STRING, at ROW<x INT, y DOUBLE>>")))


def column(name: str) -> dict[str, Any]:
    return {"column": name.split(".")}


def literal(value: Any, kind: str = "integer") -> dict[str, Any]:
    return {"type": kind, "value": value}


def op(name: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"op": name, "args": list(arguments)}


def _text(tree: dict[str, Any]) -> str | None:
    predicate = predicate_of(json.dumps(tree), FIELDS)
    return None if predicate is None else text_of(predicate)


ID_IS_3 = op("=", column("id"), literal(3))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (ID_IS_3, "id = 3"),
        (op("<>", column("id"), literal(3)), "id <> 3"),
        (op("<", literal(3), column("id")), "id > 3"),
        (op(">=", literal(3), column("id")), "id <= 3"),
        (op("IN", column("id"), literal(1), literal(2)), "id IN (1, 2)"),
        (op("IN", column("id"), literal(1), literal(None)), "id IN (1)"),
        (op("IS_NULL", column("name")), "name IS NULL"),
        (op("IS_NOT_NULL", column("list")), "list IS NOT NULL"),
        (op("STARTS_WITH", column("name"), literal("a", "string")), "name STARTS WITH 'a'"),
        (op("ENDS_WITH", column("name"), literal("a", "string")), "name ENDS WITH 'a'"),
        (op("CONTAINS", column("name"), literal("%", "string")), "name CONTAINS '%'"),
        (op("<=>", column("id"), literal(None)), "id IS NULL"),
        (op("<=>", column("id"), literal(3)), "id IS NOT NULL AND id = 3"),
        (op("AND", ID_IS_3, op("OR", ID_IS_3, op("NOT", ID_IS_3))), "id = 3 AND (id = 3 OR NOT (id = 3))"),
        (op("=", column("amount"), literal("1.50", "decimal(10,2)")), "amount = 1.50"),
        (op("<", column("score"), literal("1.5", "double")), "score < 1.5"),
        (op(">", column("score"), literal("1.5", "double")), "score > 1.5"),
        (op("<>", column("score"), literal("1.5", "double")), "score <> 1.5"),
        (op("=", column("score"), literal("NaN", "double")), "score = NaN"),
        (op("NOT", op("<", column("ratio"), literal("NaN", "float"))), "NOT (ratio < NaN)"),
        (op(">", column("place.at.y"), literal("1.5", "double")), "place['at']['y'] > 1.5"),
        (op("=", column("flag"), literal(True, "boolean")), "flag = TRUE"),
        (op("=", column("raw"), literal("AAE=", "binary")), "raw = X'0001'"),
        (op("=", column("place.city"), literal("a", "string")), "place['city'] = 'a'"),
        (op("IN", column("place.at.x"), literal(1), literal(2)), "place['at']['x'] IN (1, 2)"),
        (op("IS_NULL", column("place.at")), "place['at'] IS NULL"),
        (op("STARTS_WITH", column("place.city"), literal("a", "string")), "place['city'] STARTS WITH 'a'"),
        (op("=", column("day"), literal(2**31 - 1, "date")), "day = +5881580-07-11"),
        (op("=", column("at"), literal(9_223_372_036_825_200_000, "timestamp_ntz")), "at = +294247-01-10 04:00:25.2"),
        (op("=", column("day"), literal(19723, "date")), f"day = '{date(2024, 1, 1)}'"),
    ],
)
def test_filters_keep_their_meaning(tree: dict[str, Any], text: str) -> None:
    found = _text(tree)

    assert found is not None
    assert found.replace("'", "") == text.replace("'", "")


def test_literals_become_values_of_their_types() -> None:
    micros = 1_704_067_200_000_001
    at = conjunction_of([json.dumps(op("=", column("at"), literal(micros, "timestamp_ntz")))], FIELDS)
    instant = conjunction_of([json.dumps(op("=", column("instant"), literal(micros, "timestamp")))], FIELDS)
    amount = conjunction_of([json.dumps(op("=", column("amount"), literal("7.25", "decimal(10,2)")))], FIELDS)

    assert getattr(at, "value", None) == datetime(2024, 1, 1, 0, 0, 0, 1)
    assert getattr(instant, "value", None) in (
        datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        datetime(2024, 1, 1, 0, 0, 0, 1),
    )
    assert getattr(amount, "value", None) == Decimal("7.25")


def test_a_float_literal_is_the_float_that_the_column_holds() -> None:
    predicate = predicate_of(json.dumps(op("=", column("ratio"), literal("0.1", "float"))), FIELDS)

    assert getattr(predicate, "value", None) == 0.10000000149011612


@pytest.mark.parametrize(
    "tree",
    [
        op("=", column("code"), literal("a  ", "string")),
        op("=", column("clock"), literal(5)),
        op("=", column("fine"), literal(5, "timestamp_ntz")),
        op("=", column("list"), literal(5)),
        op("=", column("list.element"), literal(5)),
        op("=", column("nowhere"), literal(5)),
        op("=", column("place.nowhere"), literal(5)),
        op("=", column("id"), literal(None)),
        op("=", column("id"), column("hour")),
        op("=", op("+", column("id"), literal(1)), literal(5)),
        op("NOT", op("IN", column("id"), literal(1), literal(None))),
        op("=", column("day"), literal("2024-01-01", "string")),
        op("AND", ID_IS_3, op("RLIKE", column("name"), literal("a", "string"))),
        op("ALWAYS_TRUE"),
    ],
)
def test_filters_with_a_different_meaning_in_spark_are_left_to_it(tree: dict[str, Any]) -> None:
    assert _text(tree) is None
    assert handling_of(json.dumps(tree), FIELDS, ["dt", "hour"]) is FilterHandling.IGNORED


def test_filters_on_partition_columns_alone_are_exact() -> None:
    by_day = op("=", column("dt"), literal("a", "string"))
    mixed = op("OR", by_day, ID_IS_3)

    assert handling_of(json.dumps(by_day), FIELDS, ["dt"]) is FilterHandling.EXACT
    assert handling_of(json.dumps(op("NOT", by_day)), FIELDS, ["dt"]) is FilterHandling.EXACT
    assert handling_of(json.dumps(mixed), FIELDS, ["dt"]) is FilterHandling.PRUNES
    assert handling_of(json.dumps(by_day), FIELDS, []) is FilterHandling.PRUNES
    assert handling_of(json.dumps(op(">", column("score"), literal("1", "double"))), FIELDS, ["score"]) is (
        FilterHandling.EXACT
    )


def test_all_usable_filters_are_combined() -> None:
    trees = [json.dumps(t) for t in (ID_IS_3, op("ALWAYS_TRUE"), op("IS_NULL", column("name")))]

    joined = conjunction_of(trees, FIELDS)

    assert joined is not None
    assert columns_of(joined) == {"id", "name"}
    assert conjunction_of([trees[1]], FIELDS) is None


def test_a_partition_of_false_is_sent_as_not_true() -> None:
    never_null = DataField(id=97, name="sure", type=AtomicType(TypeRoot.BOOLEAN, nullable=False))

    def partition(tree: dict[str, Any]) -> dict[str, Any] | None:
        return partition_of([json.dumps(tree)], [*FIELDS, never_null], ["flag", "sure", "hour"])

    true = literal(True, "boolean")
    assert partition(op("NOT", op("=", column("sure"), true))) == {"sure": False}
    assert partition(op("NOT", op("<=>", column("sure"), true))) == {"sure": False}
    assert partition(op("NOT", op("=", column("flag"), true))) == {"flag": False}
    # These are true for nulls, too.
    assert partition(op("NOT", op("<=>", column("flag"), true))) is None
    assert partition(op("NOT", op("IS_NULL", column("flag")))) is None
    assert partition(op("NOT", op("=", column("hour"), literal(1)))) is None


def test_an_overwrite_names_partitions_by_equality() -> None:
    dt = op("=", column("dt"), literal("a", "string"))
    hour = op("<=>", column("hour"), literal(3))

    def partition(*trees: dict[str, Any]) -> dict[str, Any] | None:
        return partition_of([json.dumps(t) for t in trees], FIELDS, ["dt", "hour"])

    assert partition() == {}
    assert partition(op("ALWAYS_TRUE")) == {}
    assert partition(dt) == {"dt": "a"}
    assert partition(op("AND", dt, hour)) == {"dt": "a", "hour": 3}
    assert partition(dt, hour) == {"dt": "a", "hour": 3}
    assert partition(op("IS_NULL", column("dt"))) == {"dt": None}
    nested = op("=", column("place.city"), literal("a", "string"))
    for other in (ID_IS_3, nested, op(">", column("hour"), literal(3)), op("OR", dt, hour), op("AND", dt, dt)):
        assert partition(other) is None
