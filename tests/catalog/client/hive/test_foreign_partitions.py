"""Partitions of Hive's tables as Hive, Spark and scripts register them: equal values in other words, other formats."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.base.errors import NotSupportedError
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.client.hive.test_format_tables import LAZY, TEXT, of_hive
from tests.support.format_tables import rows_of

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
PARQUET_INPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"


def register(catalog: HiveCatalog, entry: Any, value: str, place: Path, **changes: Any) -> None:
    """Register a partition of `shop.h`; the changes are attributes of its storage descriptor, or of its SerDe."""
    place.mkdir(parents=True)
    sd = copy.deepcopy(entry.sd)
    sd.location = f"file:{place}"
    for name, change in changes.items():
        setattr(sd.serdeInfo if name in ("serializationLib", "parameters") else sd, name, change)
    part = ttypes.Partition(values=[value], dbName="shop", tableName="h", sd=sd, parameters={})
    catalog.client.add_partitions("shop", "h", [part], if_not_exists=False)


EQUAL = {
    "int": ("01", "1", "001", "+1"),
    "double": ("1", "1.0", "1e0"),
    "decimal(5,2)": ("1.5", "1.50", "01.5"),
    "boolean": ("true", "TRUE"),
    "date": ("2020-01-01", "2020-1-1"),
    "timestamp": ("2020-01-01 00:00:00", "2020-01-01 00:00:00.0"),
}
"""Texts of one value by Hive's type; a metastore keeps the partition of each."""


@pytest.mark.parametrize("kind", EQUAL)
def test_partitions_whose_values_are_equal_in_other_words_are_all_read_and_replaced(
    catalog: HiveCatalog, tmp_path: Path, kind: str
) -> None:
    entry = of_hive(tmp_path / "h", {"k": "int"}, keys={"p": kind}, serde=PARQUET, input_format=PARQUET_INPUT)
    catalog.client.create_table(entry)
    for number, text in enumerate(EQUAL[kind]):
        place = tmp_path / "h" / str(number)
        register(catalog, entry, text, place)
        pq.write_table(pa.table({"k": pa.array([number], pa.int32())}), place / "f")
    table: Any = catalog.get_table("shop.h")
    every = list(range(len(EQUAL[kind])))
    rows = table.scan().to_arrow()
    value = rows["p"][0]
    assert sorted(rows["k"].to_pylist()) == every
    assert rows["p"].to_pylist() == [value.as_py()] * len(every)
    assert len(table.partitions()) == len(every)
    assert [k for k, _ in rows_of(table, filter="p is not null and k >= 0")] == every
    table.append(pa.table({"k": pa.array([70], pa.int32()), "p": [value]}))
    assert [k for k, _ in rows_of(table)] == [*every, 70]
    # The rows of the value are replaced, not those of one directory.
    table.overwrite(pa.table({"k": pa.array([80], pa.int32()), "p": [value]}))
    assert [k for k, _ in rows_of(table)] == [80]
    table.drop_partitions({"p": value.as_py()})
    assert (rows_of(table), catalog.client.get_partition_names("shop", "h")) == ([], [])


def test_directories_of_equal_values_are_all_read(catalog: HiveCatalog) -> None:
    table: Any = catalog.create_table(
        "shop.f",
        pa.schema([("k", pa.int64()), ("p", pa.int32())]),
        partition_keys=["p"],
        options={"type": "format-table", "file.format": "json"},
    )
    table.append([{"k": 1, "p": 7}])
    for number, name in enumerate(("p=07", "p=007")):
        added = Path(table.location) / name
        added.mkdir()
        (added / "part-0").write_text(f'{{"k": {number + 2}}}\n')
    assert rows_of(table) == [(1, 7), (2, 7), (3, 7)]
    table.append([{"k": 4, "p": 7}])
    assert len(list((Path(table.location) / "p=7").iterdir())) == 2
    table.overwrite([{"k": 5, "p": 7}])
    assert rows_of(table) == [(5, 7)]


@pytest.mark.parametrize(
    ("changes", "data"),
    [
        ({"parameters": {"field.delim": "|"}}, b"2|b\n"),
        ({"parameters": {"field.delim": ",", "serialization.null.format": "nil"}}, b"2,b\nnil,c\n"),
        ({"serializationLib": "org.apache.hive.hcatalog.data.JsonSerDe"}, b'{"k": 2, "v": "b"}\n'),
        ({"serializationLib": PARQUET, "inputFormat": PARQUET_INPUT}, None),
    ],
)
def test_a_partition_with_a_serde_of_its_own_is_read_by_it_and_not_written(
    catalog: HiveCatalog, tmp_path: Path, changes: Mapping[str, Any], data: bytes | None
) -> None:
    entry = of_hive(
        tmp_path / "h", {"k": "int", "v": "string"}, keys={"p": "string"}, serde_parameters={"field.delim": ","}
    )
    catalog.client.create_table(entry)
    register(catalog, entry, "x", tmp_path / "h" / "x")
    (tmp_path / "h" / "x" / "f").write_bytes(b"1,a\n")
    own = tmp_path / "h" / "y"
    register(catalog, entry, "y", own, **changes)
    if data is None:
        pq.write_table(pa.table({"k": pa.array([2], pa.int32()), "v": ["b"]}), own / "f")
    else:
        (own / "f").write_bytes(data)
    table: Any = catalog.get_table("shop.h")
    more = [(None, "c", "y")] if data is not None and b"nil" in data else []
    assert rows_of(table) == [(1, "a", "x"), (2, "b", "y"), *more]
    assert rows_of(table, filter="p = 'y' and k = 2") == [(2, "b", "y")]
    table.append([{"k": 3, "v": "c", "p": "x"}])
    for write in (table.append, table.overwrite):
        with pytest.raises(NotSupportedError, match=r"p=y at .*h/y"):
            write([{"k": 4, "v": "d", "p": "y"}])
    assert rows_of(table, columns=["k"]) == [(1,), (2,), (3,), *([(None,)] if more else [])]


def test_a_partition_inside_of_the_directory_of_another_one_is_not_a_part_of_it(
    catalog: HiveCatalog, tmp_path: Path
) -> None:
    entry = of_hive(tmp_path / "h", {"k": "int"}, keys={"p": "string"}, serde=PARQUET, input_format=PARQUET_INPUT)
    catalog.client.create_table(entry)
    for number, (value, place) in enumerate((("a", "x"), ("b", "x/y"), ("c", "x/y/z/u"))):
        register(catalog, entry, value, tmp_path / place)
        pq.write_table(pa.table({"k": pa.array([number], pa.int32())}), tmp_path / place / "f")
    (tmp_path / "x" / "own").mkdir()
    pq.write_table(pa.table({"k": pa.array([9], pa.int32())}), tmp_path / "x" / "own" / "f")
    table: Any = catalog.get_table("shop.h")
    assert rows_of(table) == [(0, "a"), (1, "b"), (2, "c"), (9, "a")]
    table.overwrite([{"k": 5, "p": "a"}])
    assert rows_of(table) == [(1, "b"), (2, "c"), (5, "a")]
    table.truncate({"p": "b"})
    assert rows_of(table) == [(2, "c"), (5, "a")]
    table.drop_partitions({"p": "a"})
    assert rows_of(table) == [(2, "c")]


def test_partitions_with_one_directory_are_changed_together(catalog: HiveCatalog, tmp_path: Path) -> None:
    entry = of_hive(tmp_path / "h", {"k": "int"}, keys={"p": "string"}, serde=PARQUET, input_format=PARQUET_INPUT)
    catalog.client.create_table(entry)
    register(catalog, entry, "a", tmp_path / "x")
    (tmp_path / "x").rmdir()
    register(catalog, entry, "b", tmp_path / "x")
    register(catalog, entry, "c", tmp_path / "c")
    pq.write_table(pa.table({"k": pa.array([1], pa.int32())}), tmp_path / "x" / "f")
    table: Any = catalog.get_table("shop.h")
    # As for Hive, the rows are those of both.
    assert rows_of(table) == [(1, "a"), (1, "b")]
    changes: tuple[Callable[[], object], ...] = (
        lambda: table.append([{"k": 5, "p": "a"}]),
        lambda: table.overwrite([{"k": 5, "p": "a"}]),
        lambda: table.overwrite([{"k": 5, "p": "a"}], {"p": "a"}),
        lambda: table.truncate({"p": "b"}),
        lambda: table.drop_partitions({"p": "b"}),
    )
    for change in changes:
        with pytest.raises(NotSupportedError, match=r"p=\w can't be changed alone.*/x"):
            change()
    table.append([{"k": 5, "p": "c"}])
    assert rows_of(table) == [(1, "a"), (1, "b"), (5, "c")]
    table.truncate({})
    assert rows_of(table) == []


JSON = "org.openx.data.jsonserde.JsonSerDe"
ORC = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
AVRO = "org.apache.hadoop.hive.serde2.avro.AvroSerDe"
AVRO_SCHEMA = '{"type":"record","name":"r","fields":[{"name":"ts","type":"string"%s}]}'
FEATURES: tuple[tuple[str, Mapping[str, str], str], ...] = (
    (JSON, {"mapping.ts": "timestamp"}, r"mapping\.ts"),
    (JSON, {"case.insensitive": "FALSE"}, r"case\.insensitive"),
    (JSON, {"dots.in.keys": "true"}, r"dots\.in\.keys"),
    (LAZY, {"serialization.encoding": "GBK"}, r"serialization\.encoding"),
    (LAZY, {"timestamp.formats": "yyyy-MM-dd'T'HH:mm:ss"}, r"timestamp\.formats"),
    (LAZY, {"serialization.last.column.takes.rest": "true"}, r"last\.column\.takes\.rest"),
    (PARQUET, {"parquet.column.index.access": "true"}, "index"),
    (ORC, {"orc.force.positional.evolution": "true"}, "positional"),
    (AVRO, {"avro.schema.url": "file:/s.avsc"}, r"avro\.schema\.url"),
    (AVRO, {"avro.schema.literal": AVRO_SCHEMA % ',"default":"x"'}, r"avro\.schema\.literal"),
    (AVRO, {"avro.schema.literal": AVRO_SCHEMA % ',"aliases":["old"]'}, r"avro\.schema\.literal"),
    (LAZY, {"hive.lazysimple.extended_boolean_literal": "true"}, "extended_boolean"),
)


@pytest.mark.parametrize(("serde", "parameters", "named"), FEATURES)
def test_parameters_of_a_serde_that_change_values_are_refused_by_name(
    catalog: HiveCatalog, tmp_path: Path, serde: str, parameters: Mapping[str, str], named: str
) -> None:
    for place in ("serde_parameters", "parameters"):
        more: Any = {place: dict(parameters)}
        catalog.client.create_table(of_hive(tmp_path / "h", {"ts": "string"}, serde=serde, **more))
        with pytest.raises(NotSupportedError, match=rf"shop\.h.*{named}"):
            catalog.get_table("shop.h")
        catalog.client.drop_table("shop", "h")


def test_parameters_of_a_serde_that_change_nothing_are_taken(catalog: HiveCatalog, tmp_path: Path) -> None:
    place = tmp_path / "h"
    place.mkdir()
    (place / "f").write_bytes(b'{"TS": "x"}\n')
    taken = {"case.insensitive": "TRUE", "serialization.format": "1", "dots.in.keys": "false"}
    catalog.client.create_table(of_hive(place, {"ts": "string"}, serde=JSON, serde_parameters=taken))
    assert rows_of(catalog.get_table("shop.h")) == [("x",)]  # type: ignore[arg-type]


SPARK = "spark.sql.sources.schema"
SPARK_COLUMN = '{"type":"struct","fields":[{"name":"Ts","type":"string","nullable":true,"metadata":{%s}}]}'


@pytest.mark.parametrize(
    ("place", "parameters", "named"),
    [
        (
            "parameters",
            {SPARK: SPARK_COLUMN % '"EXISTS_DEFAULT":"42","CURRENT_DEFAULT":"42"'},
            r"'Ts' of 'shop\.h'.*default 42",
        ),
        (
            "parameters",
            {SPARK: SPARK_COLUMN % '"__COLLATIONS":{"Ts":"spark.UTF8_LCASE"}'},
            r"'Ts' of 'shop\.h'.*collation",
        ),
        ("parameters", {SPARK: "{"}, r"'shop\.h' is no schema of Spark's"),
        ("serde_parameters", {"pathGlobFilter": "*.other"}, r"shop\.h.*pathGlobFilter"),
        ("serde_parameters", {"modifiedAfter": "2100-01-01T00:00:00"}, r"shop\.h.*modifiedAfter"),
        ("serde_parameters", {"datetimeRebaseMode": "LEGACY"}, r"shop\.h.*datetimeRebaseMode"),
    ],
)
def test_what_spark_alone_says_of_rows_is_refused_by_name(
    catalog: HiveCatalog, tmp_path: Path, place: str, parameters: dict[str, str], named: str
) -> None:
    more: Any = {place: parameters}
    catalog.client.create_table(of_hive(tmp_path / "h", {"ts": "string"}, serde=PARQUET, **more))
    with pytest.raises(NotSupportedError, match=named):
        catalog.get_table("shop.h")


def test_a_long_schema_of_spark_is_read_in_its_parts(catalog: HiveCatalog, tmp_path: Path) -> None:
    for number, extra in enumerate(('"EXISTS_DEFAULT":"42"', '"EXISTS_DEFAULT":"NULL"', '"comment":"c"', "")):
        text = SPARK_COLUMN % extra
        parts = {f"{SPARK}.numParts": "2", f"{SPARK}.part.0": text[:50], f"{SPARK}.part.1": text[50:]}
        catalog.client.create_table(of_hive(tmp_path / "h", {"ts": "string"}, serde=PARQUET, parameters=parts))
        if number == 0:
            with pytest.raises(NotSupportedError, match="default 42"):
                catalog.get_table("shop.h")
        else:
            (tmp_path / "h").mkdir(exist_ok=True)
            assert rows_of(catalog.get_table("shop.h")) == []  # type: ignore[arg-type]
        catalog.client.drop_table("shop", "h")


def test_a_schema_of_avro_without_defaults_is_taken(catalog: HiveCatalog, tmp_path: Path) -> None:
    for extra in ("", ',"default":null'):
        taken = {"avro.schema.literal": AVRO_SCHEMA % extra}
        catalog.client.create_table(of_hive(tmp_path / "h", {"ts": "string"}, serde=AVRO, parameters=taken))
        (tmp_path / "h").mkdir(exist_ok=True)
        assert rows_of(catalog.get_table("shop.h")) == []  # type: ignore[arg-type]
        catalog.client.drop_table("shop", "h")


def test_a_number_is_no_timestamp_in_text_files_of_hive(catalog: HiveCatalog, tmp_path: Path) -> None:
    place = tmp_path / "h"
    place.mkdir()
    (place / "f").write_bytes(b"1769821323\n2026-01-31 01:02:03\n")
    catalog.client.create_table(of_hive(place, {"t": "timestamp"}, input_format=TEXT))
    found = catalog.get_table("shop.h").scan().to_arrow()["t"].cast(pa.string()).to_pylist()
    assert found == [None, "2026-01-31 01:02:03.000000"]
