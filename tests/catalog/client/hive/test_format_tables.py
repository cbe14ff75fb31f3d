"""Format tables of a metastore: those that a catalog creates, and the metastore's own tables as Hive registers them."""

import copy
import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import interbed
from interbed.catalog.client.errors import NotAnInterbedTableError, TableExistsError, TableNotFoundError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.format_entries import definition_of
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.table_compaction import TablePatterns, tables_meant
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.format_tables import arrow_schema, data_files, rows_of

LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
TEXT = "org.apache.hadoop.mapred.TextInputFormat"
SCHEMA = arrow_schema([("Id", pa.int64()), ("v", pa.string()), ("dt", pa.date32())])


def create(catalog: HiveCatalog, file_format: str = "csv", **options: str) -> FormatTable:
    created: Any = catalog.create_table(
        "shop.f",
        SCHEMA,
        partition_keys=["dt"],
        options={"type": "format-table", "file.format": file_format, "partition.legacy-name": "false", **options},
        comment="files",
    )
    assert isinstance(created, FormatTable)
    return created


def row(number: int, day: int = 0) -> dict[str, Any]:
    return {"Id": number, "v": f"v{number}", "dt": datetime.date(1970, 1, 1 + day)}


def of_hive(
    location: Path,
    columns: dict[str, str],
    *,
    serde: str = LAZY,
    input_format: str = TEXT,
    keys: dict[str, str] | None = None,
    serde_parameters: dict[str, str] | None = None,
    parameters: dict[str, str] | None = None,
) -> Any:
    """Return the entry of a table `shop.h` as Hive registers it."""
    return ttypes.Table(
        tableName="h",
        dbName="shop",
        owner="o",
        createTime=1,
        lastAccessTime=1,
        retention=0,
        parameters={"EXTERNAL": "TRUE", **(parameters or {})},
        tableType="EXTERNAL_TABLE",
        partitionKeys=[ttypes.FieldSchema(name=n, type=t) for n, t in (keys or {}).items()],
        sd=ttypes.StorageDescriptor(
            cols=[ttypes.FieldSchema(name=n, type=t) for n, t in columns.items()],
            location=f"file:{location}",
            inputFormat=input_format,
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=ttypes.SerDeInfo(serializationLib=serde, parameters=serde_parameters or {}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
    )


@pytest.mark.parametrize("file_format", ["csv", "json", "parquet", "orc", "avro"])
def test_a_created_table_is_an_ordinary_table_of_hive_with_all_its_columns(
    catalog: HiveCatalog, file_format: str
) -> None:
    table = create(catalog, file_format)
    assert catalog.list_tables("shop") == ["f"]
    table.append([row(1), row(2, 1)])
    found: Any = catalog.get_table("shop.f")
    # Names with capital letters, which a metastore folds.
    assert (found.arrow_schema, found.schema.comment, found.file_format) == (SCHEMA, "files", file_format)
    assert [found[0] for found in rows_of(found)] == [1, 2]
    entry = catalog.client.get_table("shop", "f")
    assert [c.name for c in entry.sd.cols] == ["id", "v"]
    assert [(k.name, k.type) for k in entry.partitionKeys] == [("dt", "date")]
    assert entry.parameters["type"] == "format-table"
    # Hive finds the rows, because their partitions are registered.
    assert catalog.client.get_partition_names("shop", "f") == ["dt=1970-01-01", "dt=1970-01-02"]
    found.drop_partitions({"dt": "1970-01-01"})
    assert catalog.client.get_partition_names("shop", "f") == ["dt=1970-01-02"]
    with pytest.raises(TableExistsError):
        create(catalog, file_format)


def test_a_table_is_dropped_with_its_files_and_an_external_one_without(catalog: HiveCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    table.append([row(1)])
    catalog.drop_table("shop.f", purge=True)
    assert not Path(table.location).exists()
    with pytest.raises(TableNotFoundError):
        catalog.get_table("shop.f")
    external = create(catalog, path=f"file:{tmp_path}/outside")
    external.append([row(2)])
    catalog.drop_table("shop.f")
    assert len(data_files(external)) == 1
    # The files make a table again.
    assert [found[0] for found in rows_of(create(catalog, path=f"{tmp_path}/outside"))] == [2]


def test_partitions_that_others_add_as_directories_are_found(catalog: HiveCatalog) -> None:
    table = create(catalog, "json")
    added = Path(table.location) / "dt=1970-01-05"
    added.mkdir(parents=True)
    (added / "part-0").write_text('{"Id": 5}\n')
    assert rows_of(table) == [(5, None, rows_of(table)[0][2])]
    assert [p.spec for p in table.partitions()] == [{"dt": "1970-01-05"}]


def test_partition_columns_keep_the_case_of_their_names(catalog: HiveCatalog) -> None:
    created: Any = catalog.create_table(
        "shop.f",
        arrow_schema([("Id", pa.int64()), ("Region", pa.string()), ("d", pa.int32())]),
        partition_keys=["Region", "d"],
        options={"type": "format-table", "file.format": "parquet"},
    )
    created.append([{"Id": 1, "Region": "X", "d": 1}, {"Id": 2, "Region": "y", "d": 1}])
    opened: Any = catalog.get_table("shop.f")
    assert rows_of(opened) == [(1, "X", 1), (2, "y", 1)]
    assert [dict(each.spec) for each in opened.partitions()] == [{"Region": "X", "d": "1"}, {"Region": "y", "d": "1"}]
    opened.overwrite([{"Id": 3, "Region": "X", "d": 1}], {"Region": "X"})
    assert rows_of(opened) == [(2, "y", 1), (3, "X", 1)]


def test_a_default_of_a_column_is_refused(catalog: HiveCatalog) -> None:
    fields = (
        DataField(id=0, name="id", type=AtomicType(TypeRoot.INT)),
        DataField(id=1, name="v", type=AtomicType(TypeRoot.INT), default_value="5"),
    )
    options = {"type": "format-table", "file.format": "csv"}
    schema = Schema(fields=fields, partition_keys=(), primary_keys=(), options=options, comment=None)
    with pytest.raises(NotSupportedError, match="'v' of a format table can't have a default"):
        catalog.create_table("shop.f", schema)
    assert catalog.list_tables("shop") == []


def test_what_a_format_table_lacks_is_refused_by_name(catalog: HiveCatalog) -> None:
    create(catalog)
    for use in (
        lambda: catalog.rename_table("shop.f", "shop.g"),
        lambda: catalog.alter_table("shop.f", SetOption("csv.mode", "failfast")),
        lambda: catalog.get_table("shop.f$files"),
        lambda: catalog.get_table("shop.f$branch_b"),
        lambda: catalog.load_snapshot("shop.f"),
    ):
        with pytest.raises((NotSupportedError, NotAnInterbedTableError), match=r"shop\.f"):
            use()
    assert catalog.table_exists("shop.f")


def test_no_table_of_files_is_one_when_the_option_is_off(
    catalog: HiveCatalog, options: dict[str, str], tmp_path: Path
) -> None:
    create(catalog)
    catalog.client.create_table(of_hive(tmp_path / "h", {"a": "int"}))
    assert catalog.list_tables("shop") == ["f", "h"]
    with interbed.CatalogFactory.create(options | {"format-table.enabled": "false"}) as other:
        assert other.list_tables("shop") == []
        with pytest.raises(NotAnInterbedTableError, match="TextInputFormat"):
            other.get_table("shop.h")
        with pytest.raises(NotSupportedError, match=r"format-table\.enabled"):
            other.create_table("shop.x", SCHEMA, options={"type": "format-table"})
    with pytest.raises(InvalidOptionError, match="bucket"):
        catalog.create_table("shop.x", SCHEMA, options={"type": "format-table", "bucket": "3"})


@pytest.mark.parametrize(
    "parameters", [{"is_generic": "true"}, {"flink.connector": "datagen"}, {"flink.connector.type": "kafka"}]
)
def test_a_table_of_another_connector_of_flink_is_no_table_of_text_files(
    catalog: HiveCatalog, tmp_path: Path, parameters: dict[str, str]
) -> None:
    catalog.client.create_table(of_hive(tmp_path / "h", {}, parameters=parameters))
    assert catalog.list_tables("shop") == []
    with pytest.raises(NotAnInterbedTableError, match=r"shop\.h"):
        catalog.get_table("shop.h")


def test_text_files_of_hive_are_read_and_written_by_their_serde(catalog: HiveCatalog, tmp_path: Path) -> None:
    place = tmp_path / "h"
    place.mkdir()
    columns = {"a": "int", "b": "string", "c": "boolean", "d": "decimal(5,2)", "e": "timestamp"}
    catalog.client.create_table(of_hive(place, columns))
    (place / "000000_0").write_bytes(
        b"1\x01x y\x01true\x0112.30\x012026-01-31 08:00:00.5\n\\N\x01\\N\x01no\x01\\N\x01\\N\n\nlate\x01\n"
    )
    table: Any = catalog.get_table("shop.h")
    found = table.scan(columns=["a", "b", "c"]).to_arrow().to_pylist()
    assert [tuple(each.values()) for each in found] == [
        (1, "x y", True),
        (None, None, None),
        (None, None, None),
        (None, "", None),
    ]
    table.append([{"a": 7, "b": '"q"', "c": False}])
    assert rows_of(table, columns=["a", "b", "c"], filter="a = 7") == [(7, '"q"', False)]
    written = next(path for path in place.iterdir() if path.name.startswith("data-"))
    assert written.read_bytes() == b'7\x01"q"\x01false\x01\\N\x01\\N\n'


def test_delimiters_escapes_headers_and_nulls_are_those_of_the_table(catalog: HiveCatalog, tmp_path: Path) -> None:
    place = tmp_path / "h"
    place.mkdir()
    (place / "f").write_bytes(b"a;b\nx\\;y;NIL\n\\\\;2\n")
    catalog.client.create_table(
        of_hive(
            place,
            {"a": "string", "b": "int"},
            serde_parameters={"field.delim": ";", "escape.delim": "\\", "serialization.null.format": "NIL"},
            parameters={"skip.header.line.count": "1"},
        )
    )
    table: Any = catalog.get_table("shop.h")
    assert rows_of(table) == [("\\", 2), ("x;y", None)]


def test_quoted_files_of_hive_are_only_read(catalog: HiveCatalog, tmp_path: Path) -> None:
    place = tmp_path / "h"
    place.mkdir()
    (place / "f").write_bytes(b'"a,b",""\n"c"\n')
    serde = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
    catalog.client.create_table(of_hive(place, {"a": "string", "b": "string"}, serde=serde))
    table: Any = catalog.get_table("shop.h")
    assert rows_of(table) == [("a,b", ""), ("c", None)]
    with pytest.raises(NotSupportedError, match="OpenCSVSerde"):
        table.append([{"a": "x", "b": "y"}])


def test_columnar_files_of_hive_are_read_in_the_places_of_their_partitions(
    catalog: HiveCatalog, tmp_path: Path
) -> None:
    place, elsewhere = tmp_path / "h", tmp_path / "elsewhere"
    (place / "k=1").mkdir(parents=True)
    (place / "k=3").mkdir()
    elsewhere.mkdir()
    entry = of_hive(
        place,
        {"a": "bigint", "b": "string"},
        keys={"k": "int"},
        serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
        input_format="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    )
    catalog.client.create_table(entry)
    pq.write_table(pa.table({"A": [1], "B": ["x"]}), place / "k=1" / "part-0")
    pq.write_table(pa.table({"a": [2], "b": ["y"]}), elsewhere / "part-0")
    pq.write_table(pa.table({"a": [3], "b": ["z"]}), place / "k=3" / "not-registered")
    for value, location in (("1", place / "k=1"), ("2", elsewhere), ("__HIVE_DEFAULT_PARTITION__", tmp_path / "none")):
        sd = copy.copy(entry.sd)
        sd.location = f"file:{location}"
        part = ttypes.Partition(values=[value], dbName="shop", tableName="h", sd=sd, parameters={})
        catalog.client.add_partitions("shop", "h", [part], if_not_exists=False)
    table: Any = catalog.get_table("shop.h")
    assert rows_of(table) == [(1, "x", 1), (2, "y", 2)]
    table.append([{"a": 4, "b": "w", "k": 2}, {"a": 5, "b": "v", "k": 7}, {"a": 6, "b": "u", "k": None}])
    assert rows_of(table, filter="a > 3") == [(4, "w", 2), (5, "v", 7), (6, "u", None)]
    assert len(list(elsewhere.glob("data-*"))) == 1
    assert "k=7" in catalog.client.get_partition_names("shop", "h")
    table.overwrite([{"a": 8, "b": "o", "k": 1}])
    assert rows_of(table, filter="k = 1") == [(8, "o", 1)]


def test_options_for_one_object_keep_the_syntax_of_a_serde(catalog: HiveCatalog, tmp_path: Path) -> None:
    place = tmp_path / "h"
    place.mkdir()
    (place / "f").write_bytes(b"1\x01x,y\n")
    catalog.client.create_table(of_hive(place, {"a": "int", "b": "string"}))
    table: Any = catalog.get_table("shop.h")
    assert rows_of(table.copy({"target-file-size": "1 mb"})) == [(1, "x,y")]
    with pytest.raises(InvalidInputError, match=r"shop\.h.*SerDe"):
        table.copy({"csv.field-delimiter": ";"})


@pytest.mark.parametrize(
    ("columns", "parameters", "message"),
    [
        ({"a": "int"}, {"skip.footer.line.count": "1"}, r"skip\.footer"),
        ({"a": "uniontype<int,string>"}, {}, "'a' is of Hive's type uniontype"),
    ],
)
def test_features_of_hive_that_are_not_read_are_refused_by_name(
    catalog: HiveCatalog, tmp_path: Path, columns: dict[str, str], parameters: dict[str, str], message: str
) -> None:
    catalog.client.create_table(of_hive(tmp_path / "h", columns, parameters=parameters))
    with pytest.raises(NotSupportedError, match=message):
        catalog.get_table("shop.h")


def test_tables_with_transactions_of_hive_are_refused(tmp_path: Path) -> None:
    entry = of_hive(tmp_path, {"a": "int"}, parameters={"transactional": "true"})
    with pytest.raises(NotSupportedError, match=r"'shop\.h' has transactions of Hive's"):
        definition_of(Identifier("shop", "h"), entry)


def test_a_table_of_hive_is_not_dropped_here(catalog: HiveCatalog, tmp_path: Path) -> None:
    catalog.client.create_table(of_hive(tmp_path / "h", {"a": "int"}))
    with pytest.raises(NotAnInterbedTableError, match=r"shop\.h"):
        catalog.drop_table("shop.h")
    assert catalog.client.get_table("shop", "h") is not None


def test_tables_about_the_catalog_and_compactions_pass_by_format_tables(catalog: HiveCatalog, tmp_path: Path) -> None:
    create(catalog).append([row(1)])
    catalog.create_table("shop.t", SCHEMA)
    # A table that this version can't open.
    catalog.client.create_table(of_hive(tmp_path / "h", {"a": "uniontype<int,string>"}))
    shown = catalog.get_table("sys.tables").scan().to_arrow().to_pylist()
    assert {"f", "t"} <= {found["table_name"] for found in shown}
    assert tables_meant(catalog, ["shop"], TablePatterns()) == ["shop.t"]
    assert [(p.spec, p.file_count) for p in catalog.list_partitions("shop.f")] == [({"dt": "1970-01-01"}, 1)]
    catalog.create_partitions("shop.f", {"dt": "1970-02-01"})
    assert "dt=1970-02-01" in catalog.client.get_partition_names("shop", "f")
    catalog.drop_partitions("shop.f", {"dt": "1970-01-01"})
    assert catalog.get_table("shop.f").count() == 0


@pytest.mark.parametrize("file_format", ["csv", "json", "parquet", "orc"])
def test_a_format_table_is_created_with_its_rows(catalog: HiveCatalog, file_format: str) -> None:
    rows = pa.table({"id": [1, 2, 3], "v": ["a", None, "c"], "dt": ["x", "x", "y"]})
    options = {"type": "format-table", "file.format": file_format}
    table: Any = catalog.create_table_as("shop.made", rows, partition_keys=["dt"], options=options, comment="made")
    assert isinstance(table, FormatTable)
    assert sorted(map(tuple, (r.values() for r in table.to_arrow().to_pylist()))) == [
        (1, "a", "x"),
        (2, None, "x"),
        (3, "c", "y"),
    ]
    assert [dict(p.spec) for p in catalog.list_partitions("shop.made")] == [{"dt": "x"}, {"dt": "y"}]
    with pytest.raises(TableExistsError, match=r"shop\.made"):
        catalog.create_table_as("shop.made", rows, partition_keys=["dt"], options=options)
    assert table.count() == 3


def test_a_format_table_whose_rows_do_not_fit_is_not_created(catalog: HiveCatalog) -> None:
    options = {"type": "format-table", "file.format": "csv"}
    with pytest.raises(InvalidInputError, match="'v'"):
        catalog.create_table_as("shop.made", pa.table({"id": [1, 2], "v": ["a", "b\nc"]}), options=options)
    assert catalog.list_tables("shop") == []
    assert catalog.create_table_as("shop.made", pa.table({"id": [1]}), options=options).count() == 1


def test_rows_that_are_in_the_directory_already_are_not_lost(catalog: HiveCatalog, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "one.csv").write_text("7\n")
    options = {"type": "format-table", "file.format": "csv", "path": f"file:{tmp_path}/there"}
    with pytest.raises(InvalidInputError, match=r"'shop\.made' has rows already"):
        catalog.create_table_as("shop.made", pa.table({"id": [1]}), options=options)
    found: Any = catalog.get_table("shop.made")
    assert found.to_arrow().to_pylist() == [{"id": 7}]
