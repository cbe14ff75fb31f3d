"""Options of self-optimizing: Amoro's defaults, the accepted values, and their requirements on the table."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.meta.options.known.check import known_option
from interbed.storage.meta.options.known.refused import OptionStatus
from interbed.storage.meta.options.optimizing import OptimizingOrder, SelfOptimizing
from interbed.storage.meta.schema.change import RenameColumn, SetOption
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.opening import schema_manager
from interbed.storage.table.table import Table, load_table

COLUMNS = pa.schema((pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string()), pa.field("p", pa.int32())))

NOT_CARRIED_OUT = (
    *("allow-partial-commit", "execute.num-retries", "fragment-ratio", "min-target-size-ratio", "max-file-count"),
    *("max-task-size-bytes", "min-plan-interval", "evaluation.fallback-interval", "filter"),
    *("evaluation.file-size.mse-tolerance", "refresh-table.adaptive.max-interval-ms"),
    *("refresh-table.adaptive.increase-step-ms", "rewrite.use-parquet-row-group-merge.enabled"),
    "rewrite.use-parquet-row-group-merge.min-avg-row-group-size-bytes",
)
"""The other table properties `self-optimizing.…` of Amoro (its TableProperties, August 2026)."""


def made(path: Path, options: dict[str, str], *, keys: tuple[str, ...] = (), partitions: tuple[str, ...] = ()) -> Table:
    schema = Schema.from_pyarrow_schema(
        COLUMNS, primary_keys=list(keys), partition_keys=list(partitions), options=options
    )
    schema_manager(str(path)).create_table(schema)
    return load_table(str(path))


def test_the_defaults_equal_amoros() -> None:
    assert SelfOptimizing.of({}) == SelfOptimizing()
    assert SelfOptimizing.of({}) == SelfOptimizing(
        enabled=True,
        group="default",
        quota=0.5,
        minor_file_count=12,
        minor_interval_millis=3_600_000,
        major_duplicate_ratio=0.1,
        full_interval_millis=None,
        full_rewrites_all_files=True,
    )


def test_every_option_is_read() -> None:
    found = SelfOptimizing.of(
        {
            "self-optimizing.enabled": "false",
            "self-optimizing.group": "nightly",
            "self-optimizing.quota": "1",
            "self-optimizing.target-size": "64 mb",
            "self-optimizing.minor.trigger.file-count": "5",
            "self-optimizing.minor.trigger.interval": "60000",
            "self-optimizing.major.trigger.duplicate-ratio": "0.25",
            "self-optimizing.full.trigger.interval": "1 d",
            "self-optimizing.full.rewrite-all-files": "false",
            "self-optimizing.max-read-amplification": "2.5",
            "self-optimizing.order-by": "v, id",
            "self-optimizing.order-strategy": "zorder",
        }
    )
    assert found == SelfOptimizing(
        enabled=False,
        group="nightly",
        quota=1.0,
        target_size=64 << 20,
        minor_file_count=5,
        minor_interval_millis=60_000,
        major_duplicate_ratio=0.25,
        full_interval_millis=86_400_000,
        full_rewrites_all_files=False,
        max_read_amplification=2.5,
        order_by=("v", "id"),
        order_strategy=OptimizingOrder.ZORDER,
    )


@pytest.mark.parametrize(("text", "millis"), [("3600000", 3_600_000), ("1 h", 3_600_000), ("-1", None), ("0", 0)])
def test_times_are_milliseconds_or_have_a_unit_and_minus_one_means_never(text: str, millis: int | None) -> None:
    found = SelfOptimizing.of(
        {"self-optimizing.minor.trigger.interval": text, "self-optimizing.full.trigger.interval": text}
    )
    assert (found.minor_interval_millis, found.full_interval_millis) == (millis, millis)


@pytest.mark.parametrize(
    ("key", "value", "takes"),
    [
        ("enabled", "yes", "takes true or false"),
        ("group", " ", "takes the name of a group"),
        ("quota", "0", "takes a share of its group's time, more than 0 and at most 1, not '0'"),
        ("quota", "2", "takes a share"),
        ("quota", "nan", "takes a number"),
        ("target-size", "0", "takes a size of at least 1 byte"),
        ("target-size", "many", "takes a size"),
        ("minor.trigger.file-count", "0", "takes a number of at least 1"),
        ("minor.trigger.interval", "-2", "takes a duration such as '8 min', or -1 for never, not '-2'"),
        ("major.trigger.duplicate-ratio", "1.5", "takes a number from 0 to 1"),
        ("full.trigger.interval", "soon", "takes a duration such as '8 min', or -1 for never"),
        ("full.rewrite-all-files", "1", "takes true or false"),
        ("max-read-amplification", "0.9", "takes a number of at least 1"),
        ("max-read-amplification", "inf", "takes a number"),
        ("order-strategy", "spiral", "takes one of order, zorder, hilbert"),
    ],
)
def test_an_invalid_value_is_refused_when_a_table_is_created_or_altered(
    tmp_path: Path, key: str, value: str, takes: str
) -> None:
    key = f"self-optimizing.{key}"
    with pytest.raises(InvalidOptionError, match=f"'{key}' {takes}"):
        SelfOptimizing.of({key: value})
    with pytest.raises(InvalidOptionError, match=f"'{key}' {takes}"):
        made(tmp_path / "t", {key: value})
    table = made(tmp_path / "altered", {})
    with pytest.raises(InvalidOptionError, match=f"'{key}' {takes}"):
        table.store.alter([SetOption(key, value)])


@pytest.mark.parametrize("key", NOT_CARRIED_OUT)
def test_other_options_of_amoro_are_refused_by_name(tmp_path: Path, key: str) -> None:
    option = known_option(f"self-optimizing.{key}")
    assert option is not None
    assert option.status is OptionStatus.REFUSED
    with pytest.raises(NotSupportedError, match=rf"'self-optimizing\.{key}' = 'zzz' is not supported: .*; "):
        made(tmp_path / "t", {f"self-optimizing.{key}": "zzz"})


def test_the_options_of_a_table_are_checked_as_the_optimizer_reads_them(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"self-optimizing.group": "g"}, keys=("id",))
    assert SelfOptimizing.of(table.options.raw).group == table.options.optimizing_group == "g"
    assert SelfOptimizing.of(table.copy({"self-optimizing.group": "h"}).options.raw).group == "h"


@pytest.mark.parametrize(
    ("options", "keys", "partitions", "message"),
    [
        ({"order-strategy": "zorder"}, (), (), "needs 'self-optimizing.order-by'"),
        ({"order-by": "v"}, ("id",), (), "is for append tables without buckets"),
        ({"order-by": "w"}, (), (), "There is no column 'w' to order by"),
        ({"order-by": "p"}, (), ("p",), "'p' is a partition column"),
        ({"order-by": "v", "order-strategy": "hilbert"}, (), (), "at least two columns"),
    ],
)
def test_an_order_that_a_sort_compaction_cannot_produce_is_refused(
    tmp_path: Path, options: dict[str, str], keys: tuple[str, ...], partitions: tuple[str, ...], message: str
) -> None:
    given = {f"self-optimizing.{key}": value for key, value in options.items()}
    with pytest.raises(InvalidOptionError, match=message):
        made(tmp_path / "t", given, keys=keys, partitions=partitions)


def test_an_order_follows_the_rename_of_a_column(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"self-optimizing.order-by": "v, id", "self-optimizing.order-strategy": "hilbert"})
    table.store.alter([RenameColumn(("v",), "w")])
    found = SelfOptimizing.of(load_table(str(tmp_path / "t")).schema.options)
    assert found.order_by == ("w", "id")
