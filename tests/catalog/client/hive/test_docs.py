"""Statements of docs/hive-catalog.md hold for the code."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.settings import hive_settings
from interbed.catalog.client.options import KNOWN, PREFIXES, CatalogOptions
from interbed.cli import main

DOCS = (Path(__file__).resolve().parents[4] / "docs" / "hive-catalog.md").read_text()


def section(title: str) -> str:
    return DOCS.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_documented_option_is_known() -> None:
    options = [row[0].strip("`") for row in table_rows(section("Options"))]
    assert options
    for option in options:
        assert option in KNOWN or option.startswith(PREFIXES), option
    assert {"uri", "warehouse", "lock.enabled", "sync-all-properties", "table.type"} <= set(options)


def test_documented_defaults_are_those_of_the_code() -> None:
    documented = {row[0].strip("`"): row[1] for row in table_rows(section("Options"))}
    options = CatalogOptions({"uri": "thrift://h:1"})
    assert documented["lock-acquire-timeout"] == f"`{options.lock_acquire_timeout_millis // 60_000} min`"
    assert documented["lock-check-max-sleep"] == f"`{options.lock_check_max_sleep_millis // 1000} s`"
    assert documented["table.type"] == f"`{options.table_type}`"
    for name, value in (
        ("sync-all-properties", options.sync_all_properties),
        ("location-in-properties", options.location_in_properties),
        ("alter-table-cascade", options.alter_table_cascade),
        ("hive.skip-update-stats", options.skip_update_stats),
    ):
        assert documented[name] == f"`{str(value).lower()}`"
    settings = hive_settings(options, {})
    assert f"`{settings.timeout_seconds:.0f} s`" in documented["client-timeout"]
    assert documented["client-pool-size"] == f"`{settings.transport.pool_size}`"
    assert (settings.transport.connect_tries, settings.transport.connect_pause_seconds) == (3, 1.0)


def test_every_documented_property_of_hive_site_is_read(tmp_path: Path) -> None:
    text = section("Options").split("From `hive-site.xml`", 1)[1]
    code = "".join((Path(hive_settings.__code__.co_filename).parent / name).read_text() for name in ("settings.py",))
    names = re.findall(r"`(hive\.metastore\.[A-Za-z.]+)(?:=[A-Za-z]+)?`", text)
    assert len(names) == 16
    for name in names:
        assert f'"{name}"' in code, name


def test_a_table_is_registered_as_documented(catalog: HiveCatalog) -> None:
    schema = pa.schema((("id", pa.int64()), ("dt", pa.string())))
    catalog.create_table("shop.t", schema, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "1"})
    catalog.get_table("shop.t").upsert(pa.table({"id": [1], "dt": ["x"]}))
    entry = catalog.client.get_table("shop", "t")
    documented = {row[0].strip("`"): row[1] for row in table_rows(section("What is registered"))}
    assert f"`{entry.tableType}`" in documented["tableType"]
    assert f"`{entry.sd.inputFormat}`, `{entry.sd.outputFormat}`" == documented["sd.inputFormat`, `sd.outputFormat"]
    assert documented["sd.serdeInfo"] == f"`{entry.sd.serdeInfo.serializationLib}`"
    assert entry.partitionKeys == []
    for name in ("table_type", "storage_handler"):
        assert f"`{name}={entry.parameters[name]}`" in documented["parameters"]
    for name in ("primary-key", "partition", "bucket-key"):
        assert f"`{name}`" in documented["parameters"]
        assert name in entry.parameters
    assert f"`{next(k for k in entry.parameters if k.startswith('interbed.'))}`" in section("What is registered")


def test_the_examples_run(catalog: HiveCatalog, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    opening, partitions = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    warehouse = options["warehouse"]
    documented = opening.replace("thrift://127.0.0.1:9083", options["uri"]).replace("file:/tmp/lake", warehouse)
    names: dict[str, object] = {}
    exec(documented, names)
    opened = names["catalog"]
    assert isinstance(opened, interbed.Catalog)
    schema = pa.schema((("id", pa.int64()), ("dt", pa.string())))
    opened.create_table(
        "shop.orders", schema, partition_keys=["dt"], options={"metastore.partitioned-table": "true"}
    ).append(pa.table({"id": [1, 2], "dt": ["2026-01-31", "2026-02-01"]}))
    for line in partitions.splitlines():
        exec(line, names)
        registered = catalog.client.get_partition_names("shop", "orders")
        parameters = {
            key
            for each in catalog.client.get_partitions_by_names("shop", "orders", registered)
            for key in each.parameters
        }
        noted = re.findall(r"`(numRows|numFiles|totalSize|totalBuckets|lastUpdateTime)`", section("Partitions"))
        assert len(noted) == 5
        if "alter_partitions" in line:
            assert set(noted) <= parameters
    assert registered == ["dt=2026-02-01"]
    opened.close()
    [command] = re.findall(r"```\ninterbed (.*?)\n```", DOCS)
    command = command.replace("thrift://127.0.0.1:9083", options["uri"]).replace("file:/tmp/lake", warehouse)
    result = CliRunner().invoke(main, command.split())
    assert (result.exit_code, result.output) == (0, "looked at 1 table; nothing to repair\n")
