"""Partitions of `metastore.partitioned-table` tables in the metastore: registered by commits, dropped, described."""

from pathlib import Path

import pyarrow as pa
import pytest
from hmsclient import hmsclient

import interbed
from interbed.catalog.client.errors import PartitionExistsError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, RenameColumn, SetOption, UpdateColumnComment

SCHEMA = pa.schema(
    (
        pa.field("dt", pa.string(), metadata={"description": "the day"}),
        pa.field("id", pa.int64()),
        pa.field("H", pa.int32()),
    )
)


def create(catalog: HiveCatalog, name: str = "shop.t", **options: object) -> interbed.Table:
    return catalog.create_table(
        name,
        SCHEMA,
        primary_keys=["dt", "H", "id"],
        partition_keys=["dt", "H"],
        options={"bucket": "2", "metastore.partitioned-table": "true", **options},
    )


def rows(*places: tuple[str | None, int | None]) -> pa.Table:
    return pa.table(
        {"dt": [d for d, _ in places], "id": list(range(len(places))), "H": [h for _, h in places]}, schema=SCHEMA
    )


def names(catalog: HiveCatalog, table: str = "t") -> list[str]:
    return sorted(catalog.client.get_partition_names("shop", table))


def test_partition_keys_are_registered_apart_from_the_columns(catalog: HiveCatalog) -> None:
    create(catalog)
    entry = catalog.client.get_table("shop", "t")
    assert [(c.name, c.type) for c in entry.sd.cols] == [("id", "bigint")]
    assert [(c.name.lower(), c.type, c.comment) for c in entry.partitionKeys] == [
        ("dt", "string", "the day"),
        ("h", "int", None),
    ]
    assert entry.parameters["partition"] == "dt,H"


def test_a_commit_registers_its_partitions(catalog: HiveCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    table.upsert(rows(("2026-01-31", 1), ("a/b=c d", 2)))
    table.upsert(rows(("2026-01-31", 1), ("2026-02-01", 3)))
    assert names(catalog) == ["dt=2026-01-31/h=1", "dt=2026-02-01/h=3", "dt=a%2Fb%3Dc d/h=2"]
    [entry] = catalog.client.get_partitions_by_names("shop", "t", ["dt=a%2Fb%3Dc d/h=2"])
    whole = catalog.client.get_table("shop", "t")
    assert entry.values == ["a/b=c d", "2"]
    assert entry.sd.location == f"file:{tmp_path}/lake/shop.db/t/dt=a%2Fb%3Dc d/H=2"
    assert Path(entry.sd.location.removeprefix("file:"), "bucket-0").parent.is_dir()
    # The catalog has the time of its request, the metastore that of the creation; the second may change in between.
    assert 0 < entry.lastAccessTime <= entry.createTime
    for field in ("cols", "inputFormat", "outputFormat", "compressed", "numBuckets", "serdeInfo"):
        assert getattr(entry.sd, field) == getattr(whole.sd, field)
    assert set(entry.parameters) <= {"transient_lastDdlTime"}


def test_a_null_partition_is_named_by_the_default_partition_name_of_the_table(catalog: HiveCatalog) -> None:
    table = catalog.create_table(
        "shop.t", SCHEMA, partition_keys=["dt"], options={"metastore.partitioned-table": "true"}
    )
    table.append(rows((None, 1), ("x", 1)))
    assert names(catalog) == ["dt=__DEFAULT_PARTITION__", "dt=x"]


def test_null_and_the_empty_text_are_one_partition_in_the_metastore(catalog: HiveCatalog) -> None:
    table = catalog.create_table(
        "shop.t", SCHEMA, partition_keys=["dt"], options={"metastore.partitioned-table": "true"}
    )
    table.append(rows((None, 1), ("", 2), ("", 3)))
    assert names(catalog) == ["dt=__DEFAULT_PARTITION__"]
    table.append(rows(("x", 1)))
    assert names(catalog) == ["dt=__DEFAULT_PARTITION__", "dt=x"]
    assert catalog.client.get_table("shop", "t").parameters["interbed.current-snapshot-id"] == "2"

    catalog.alter_partitions("shop.t", catalog.list_partitions("shop.t"))
    [entry] = catalog.client.get_partitions_by_names("shop", "t", ["dt=__DEFAULT_PARTITION__"])
    assert (entry.parameters["numRows"], entry.parameters["numFiles"]) == ("3", "2")

    catalog.client.drop_partition("shop", "t", ["__DEFAULT_PARTITION__"])
    report = catalog.repair_table("shop.t")
    assert [a.detail for a in report.actions] == ["dt=__DEFAULT_PARTITION__"]
    assert names(catalog) == ["dt=__DEFAULT_PARTITION__", "dt=x"]
    catalog.create_partitions("shop.t", [{"dt": None}, {"dt": ""}, {"dt": "y"}, {"dt": "y"}])
    # The rows with the empty text stay, and so does the entry.
    catalog.drop_partitions("shop.t", [{"dt": None}])
    assert names(catalog) == ["dt=__DEFAULT_PARTITION__", "dt=x", "dt=y"]


def test_an_external_data_path_is_the_location_of_its_partitions(catalog: HiveCatalog, tmp_path: Path) -> None:
    create(catalog, **{"data-file.path-directory": "data"}).upsert(rows(("x", 1)))
    [entry] = catalog.client.get_partitions_by_names("shop", "t", ["dt=x/h=1"])
    assert entry.sd.location == f"file:{tmp_path}/lake/shop.db/t/data/dt=x/H=1"
    assert Path(tmp_path, "lake/shop.db/t/data/dt=x/H=1").is_dir()


def test_tables_without_the_option_register_nothing(catalog: HiveCatalog) -> None:
    table = catalog.create_table("shop.t", SCHEMA, partition_keys=["dt"])
    table.append(rows(("x", 1)))
    assert catalog.client.get_table("shop", "t").partitionKeys == []
    catalog.create_partitions("shop.t", [{"dt": "y"}])
    catalog.alter_partitions("shop.t", catalog.list_partitions("shop.t"))
    catalog.drop_partitions("shop.t", [{"dt": "x"}])
    assert table.scan().count() == 0


def test_a_dropped_partition_loses_its_entry_and_its_rows(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(rows(("x", 1), ("x", 2), ("y", 1), ("z", 1)))
    catalog.drop_partitions("shop.t", [{"dt": "z", "H": 1}])
    assert names(catalog) == ["dt=x/h=1", "dt=x/h=2", "dt=y/h=1"]
    catalog.drop_partitions("shop.t", [{"dt": "x"}])
    assert names(catalog) == ["dt=y/h=1"]
    assert [dict(p.spec) for p in catalog.list_partitions("shop.t")] == [{"dt": "y", "H": "1"}]
    # Its next rows register it again.
    table.upsert(rows(("x", 1)))
    assert names(catalog) == ["dt=x/h=1", "dt=y/h=1"]


def test_a_partition_emptied_by_an_overwrite_keeps_its_entry_as_in_paimon(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(rows(("x", 1), ("y", 1)))
    table.overwrite(rows(("y", 1)), {})
    assert [p.spec["dt"] for p in catalog.list_partitions("shop.t")] == ["y"]
    assert names(catalog) == ["dt=x/h=1", "dt=y/h=1"]


def test_entries_are_restored_when_their_rows_could_not_be_deleted(
    catalog: HiveCatalog, options: dict[str, str], tmp_path: Path
) -> None:
    table = create(catalog)
    table.upsert(rows(("x", 1), ("y", 1)))
    snapshots = tmp_path / "lake" / "shop.db" / "t" / "snapshot"
    # The commit of the drop fails because a manifest is missing.
    manifests = tmp_path / "lake" / "shop.db" / "t" / "manifest"
    hidden = manifests.rename(manifests.with_name("hidden"))
    with pytest.raises(interbed.InterbedError, match="missing"):
        catalog.drop_partitions("shop.t", [{"dt": "x", "H": 1}])
    hidden.rename(manifests)
    assert snapshots.is_dir()
    assert names(catalog) == ["dt=x/h=1", "dt=y/h=1"]


def test_partitions_are_created_without_rows(catalog: HiveCatalog) -> None:
    create(catalog)
    catalog.create_partitions("shop.t", [{"dt": "x", "H": 1}, {"dt": "y", "H": "2"}])
    catalog.create_partitions("shop.t", [{"dt": "x", "H": 1}])
    with pytest.raises(PartitionExistsError, match=r"shop\.t"):
        catalog.create_partitions("shop.t", [{"dt": "x", "H": 1}], ignore_if_exists=False)
    assert names(catalog) == ["dt=x/h=1", "dt=y/h=2"]
    assert catalog.list_partitions("shop.t") == []


def test_partition_statistics_are_registered_as_in_paimon(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(rows(("x", 1), ("y", 1)))
    [x, _] = catalog.list_partitions("shop.t")
    catalog.drop_partitions("shop.t", [{"dt": "y"}])
    catalog.alter_partitions("shop.t", [x])
    [entry] = catalog.client.get_partitions_by_names("shop", "t", ["dt=x/h=1"])
    seconds = str(x.last_file_creation_time // 1000)
    assert entry.parameters == {
        "numFiles": "1",
        "totalSize": str(x.file_size_in_bytes),
        "numRows": "1",
        "lastUpdateTime": seconds,
        "totalBuckets": "2",
        "transient_lastDdlTime": seconds,
    }
    assert entry.lastAccessTime == int(seconds)


def test_changed_columns_are_copied_to_the_partitions(catalog: HiveCatalog, options: dict[str, str]) -> None:
    create(catalog).upsert(rows(("x", 1)))
    catalog.alter_table(
        "shop.t",
        [AddColumn("more", AtomicType(TypeRoot.INT)), UpdateColumnComment("more", "a\nb"), RenameColumn("more", "v")],
    )
    [entry] = catalog.client.get_partitions_by_names("shop", "t", ["dt=x/h=1"])
    expected = [("id", "bigint", None), ("v", "int", "a b")]
    assert [(c.name, c.type, c.comment) for c in entry.sd.cols] == expected
    with interbed.CatalogFactory.create(options | {"alter-table-cascade": "false"}) as alone:
        alone.alter_table("shop.t", AddColumn("last", AtomicType(TypeRoot.INT)))
    [entry] = catalog.client.get_partitions_by_names("shop", "t", ["dt=x/h=1"])
    assert [c.name for c in entry.sd.cols] == ["id", "v"]
    assert [c.name for c in catalog.client.get_table("shop", "t").sd.cols] == ["id", "v", "last"]


def test_registration_of_partitions_can_not_be_changed_after_creation(catalog: HiveCatalog) -> None:
    create(catalog)
    with pytest.raises(InvalidOptionError, match=r"metastore\.partitioned-table"):
        catalog.alter_table("shop.t", SetOption("metastore.partitioned-table", "false"))
    assert catalog.get_table("shop.t").schema.id == 0


def test_partitions_are_moved_with_their_table(catalog: HiveCatalog, tmp_path: Path) -> None:
    create(catalog).upsert(rows(("x", 1)))
    catalog.create_database("other", properties={"location": f"file:{tmp_path}/other"})
    catalog.rename_table("shop.t", "other.u")
    [entry] = catalog.client.get_partitions_by_names("other", "u", ["dt=x/h=1"])
    assert entry.sd.location == f"file:{tmp_path}/other/u/dt=x/H=1"
    catalog.get_table("other.u").upsert(rows(("y", 2)))
    assert sorted(catalog.client.get_partition_names("other", "u")) == ["dt=x/h=1", "dt=y/h=2"]


def test_many_partitions_are_registered(catalog: HiveCatalog) -> None:
    create(catalog)
    catalog.create_partitions("shop.t", [{"dt": "x", "H": h} for h in range(1200)])
    assert len(names(catalog)) == 1200


def test_a_client_of_hive_does_not_move_the_directories_of_partitions(catalog: HiveCatalog, server: str) -> None:
    table, other = create(catalog), create(catalog, "shop.other")
    table.upsert(rows(("2026-01-31", 1)))
    host, _, port = server.removeprefix("thrift://").partition(":")
    with hmsclient.HMSClient(host=host, port=int(port)) as client:
        [partition] = client.get_partitions("shop", "t", -1)
        partition.values = ["2026-02-01", "1"]
        with pytest.raises(Exception, match=r"Paimon table shop\.t are not renamed or exchanged"):
            client.rename_partition("shop", "t", ["2026-01-31", "1"], partition)
        with pytest.raises(Exception, match="are not renamed or exchanged"):
            client.exchange_partition({"dt": "2026-01-31"}, "shop", "t", "shop", "other")
    assert names(catalog) == ["dt=2026-01-31/h=1"]
    assert table.scan().to_arrow().num_rows == 1
    assert other.count() == 0
