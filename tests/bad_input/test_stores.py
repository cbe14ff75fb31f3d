"""Object stores that refuse requests and full disks are named in errors, and no files are left behind."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import (
    InvalidInputError,
    StorageAccessError,
)
from interbed.storage.io.faults import Fault, FaultAction, FaultyFileIO
from interbed.storage.table.opening import open_store
from tests.bad_input.tables import GOOD, unchanged


def test_an_unusable_warehouse_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    catalog = interbed.load_catalog(warehouse=f"file:{tmp_path}/file/lake")
    with pytest.raises(StorageAccessError, match=f"{tmp_path}/file"):
        catalog.create_database("shop")
    with pytest.raises(InvalidInputError, match="magic"):
        interbed.load_catalog(warehouse="magic://bucket/lake")


@pytest.mark.parametrize(
    "fault",
    [
        "open_output:*/bucket-*",
        "open_output:*/manifest/manifest-*",
        "open_output:*/manifest/manifest-list-*",
        "create_exclusive:*/snapshot/*",
    ],
)
def test_a_write_that_the_object_store_refuses_halfway_leaves_no_files(orders: interbed.Table, fault: str) -> None:
    operation, pattern = fault.split(":")
    for skip in (0, 1):
        if skip and operation == "create_exclusive":
            continue
        faulty = FaultyFileIO(
            orders.store.file_io,
            [Fault(operation=operation, pattern=pattern, action=FaultAction.FAIL_BEFORE, skip=skip)],
        )
        table = interbed.Table("shop.orders", open_store(orders.location, faulty))
        with unchanged(orders), pytest.raises(StorageAccessError, match=r"on purpose"):
            table.upsert(pa.table({"id": list(range(100))}))
        assert faulty.armed == []
    orders.upsert(GOOD)


def test_a_full_disk_is_an_error_that_leaves_no_files(orders: interbed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pa, "OSFile", full)
        with unchanged(orders), pytest.raises(StorageAccessError, match=r"bucket-.*No space left"):
            orders.upsert(GOOD)
    with monkeypatch.context() as patch:
        patch.setattr("os.link", full)
        with unchanged(orders), pytest.raises(StorageAccessError, match=r"snapshot-3.*No space left"):
            orders.upsert(GOOD)
    orders.upsert(GOOD)
