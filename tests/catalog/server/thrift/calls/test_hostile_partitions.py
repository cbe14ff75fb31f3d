"""Hostile values and keys of partitions: each has one directory below its table's, named as in Hive, or is refused.

Nothing outside is created, moved or deleted.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.service.moves import DROPPED_DIRECTORY
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.hostile_names import NAMES
from tests.support.servers.java_metastore import metastore_client
from tests.support.servers.metastore import MetastoreUnderTest, storage, table
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = pytest.mark.longer

# Texts of Thrift are UTF-8, and an empty value is that of the default partition.
VALUES = [name for name in NAMES if name and not re.search("[\ud800-\udfff]", name)]
KEYS = ("../../moved", "..", "/etc", "a/b", "a=b", "a\nb", "k")

HIVE_ESCAPES = re.compile("[\x01-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")
"""Characters of Hive's FileUtils.charToEscape."""

REFUSED = (ttypes.MetaException, ttypes.InvalidObjectException, ttypes.InvalidOperationException)


@pytest.fixture
def raw(metastore: MetastoreUnderTest) -> Iterator[Any]:
    """Connect the generated client."""
    with metastore_client(metastore.uri) as client:
        yield client


def _hive_name(text: str) -> str:
    return HIVE_ESCAPES.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _tree(root: Path, besides: Path) -> set[str]:
    """Return files and directories below `root`, but not those of one directory and of dropped objects."""
    found: set[str] = set()
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if Path(directory, name) != besides and name != DROPPED_DIRECTORY]
        found.update(os.path.join(directory, name) for name in (*names, *files))
    return {path for path in found if "metastore.db" not in path and not path.endswith(".log")}


def _partition(value: str, name: str = "t") -> Any:
    return ttypes.Partition(dbName="hostile", tableName=name, values=[value], sd=storage(), parameters={})


@pytest.mark.attack("paths and links")
def test_every_hostile_value_has_one_directory_below_its_table(
    raw: Any, metastore: MetastoreUnderTest, tally: Tally
) -> None:
    raw.create_database(ttypes.Database(name="hostile"))
    for name in ("t", "u"):
        raw.create_table(table("hostile", name, partition_keys=(("k", "string"),)))
    home = metastore.warehouse / "hostile.db"
    neighbour = metastore.warehouse / "moved"
    neighbour.mkdir(exist_ok=True)
    (neighbour / "file").write_text("neighbour")
    before = _tree(metastore.warehouse.parent, home)
    taken = refused = 0
    for number, value in enumerate(VALUES[:: 2 if LONG else 8]):
        made = home / "t" / f"k={_hive_name(value)}"
        adds: list[Callable[[], Any]] = [
            partial(raw.add_partition, _partition(value)),
            partial(raw.append_partition, "hostile", "t", [value]),
            partial(raw.append_partition_by_name, "hostile", "t", f"k={_hive_name(value)}"),
            partial(raw.add_partitions, [_partition(value)]),
        ]
        try:
            adds[number % 4]()
        except REFUSED:
            # The value is too long for a directory's name, or has a character that no location may have.
            assert len(made.name.encode()) > 255 or re.search("[\x00\x80-\x9f\u2028\u2029]", value)
            refused += 1
            continue
        assert os.listdir(home / "t") == [made.name]
        (made / "file").write_text("data")
        moved = f"{value}x"
        if len(made.name.encode()) < 255:
            raw.rename_partition("hostile", "t", [value], _partition(moved))
            assert os.listdir(home / "t") == [f"k={_hive_name(moved)}"]
            raw.exchange_partition({"k": moved}, "hostile", "t", "hostile", "u")
            assert os.listdir(home / "u") == [f"k={_hive_name(moved)}"]
            assert (home / "u" / f"k={_hive_name(moved)}" / "file").read_text() == "data"
            raw.exchange_partition({"k": moved}, "hostile", "u", "hostile", "t")
            raw.rename_partition("hostile", "t", [moved], _partition(value))
        assert [each.values for each in raw.get_partitions("hostile", "t", -1)] == [[value]]
        assert raw.drop_partition("hostile", "t", [value], True)
        assert os.listdir(home / "t") == os.listdir(home / "u") == []
        assert _tree(metastore.warehouse.parent, home) == before
        taken += 1
    raw.drop_database("hostile", True, True)
    assert not home.exists()
    assert _tree(metastore.warehouse.parent, home) == before
    tally("hostile values of partitions", taken + refused)


@pytest.mark.sample(5)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.attack("paths and links")
def test_a_hostile_key_stays_below_its_table(raw: Any, metastore: MetastoreUnderTest, key: str) -> None:
    home = metastore.warehouse / "keys.db"
    raw.create_database(ttypes.Database(name="keys"))
    before = _tree(metastore.warehouse.parent, home)
    try:
        raw.create_table(table("keys", "t", partition_keys=((key, "string"),)))
        raw.append_partition("keys", "t", [".."])
    except REFUSED:
        pass
    else:
        assert os.listdir(home / "t") == [f"{_hive_name(key)}=.."]
    assert _tree(metastore.warehouse.parent, home) == before
    raw.drop_database("keys", True, True)
    assert _tree(metastore.warehouse.parent, home) == before


@pytest.mark.parametrize("values", [["../../moved", ".."], ["..", "../x"]])
@pytest.mark.attack("paths and links")
def test_names_of_partitions_of_several_keys_have_one_directory_for_each(
    raw: Any, metastore: MetastoreUnderTest, values: list[str]
) -> None:
    home = metastore.warehouse / "several.db"
    raw.create_database(ttypes.Database(name="several"))
    raw.create_table(table("several", "t", partition_keys=(("a", "string"), ("b", "string"))))
    added = raw.append_partition("several", "t", values)
    assert added.sd.location == f"file:{home}/t/a={_hive_name(values[0])}/b={_hive_name(values[1])}"
    assert Path(added.sd.location.removeprefix("file:")).is_dir()
    raw.drop_partition("several", "t", values, True)
    assert os.listdir(home / "t") == []
    raw.drop_database("several", True, True)
