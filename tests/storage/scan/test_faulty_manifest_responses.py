"""Manifests in an object store are requested again when a response does not match the file."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.scan import manifest_reader
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.opening import open_store
from tests.support.paced_files import PacedFiles


class FaultyResponses(PacedFiles):
    """A store that returns wrong responses for files of the manifest directory."""

    wrong = 0
    content = b""

    def read_bytes(self, path: str) -> bytes:
        found = super().read_bytes(path)
        if "/manifest/" in path and self.wrong:
            self.wrong -= 1
            return self.content or found[:-1]
        return found


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultyResponses:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    catalog.create_database("d")
    table = catalog.create_table("d.t", pa.schema([("id", pa.int64())]))
    table.append([{"id": 1}])
    monkeypatch.setattr(manifest_reader, "_CONTENTS", type(manifest_reader._CONTENTS)())
    return FaultyResponses("s3://far", tmp_path)


@pytest.mark.parametrize("content", [b"", b"<html>Maintenance</html>"])
def test_a_wrong_response_is_not_reported_as_damage(files: FaultyResponses, content: bytes) -> None:
    files.wrong, files.content = 1, content
    assert len(TableScan(open_store("s3://far/d.db/t", files)).plan().splits) == 1


def test_the_error_names_a_damaged_manifest_which_is_not_cached(files: FaultyResponses) -> None:
    files.wrong = 100
    with pytest.raises(CorruptFileError, match="it is damaged"):
        TableScan(open_store("s3://far/d.db/t", files)).plan()
    files.wrong = 0
    assert len(TableScan(open_store("s3://far/d.db/t", files)).plan().splits) == 1
