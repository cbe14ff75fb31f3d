"""Properties file of a database in a file-system catalog."""

from pathlib import Path

import pytest

import interbed
from interbed.storage.base.errors import CorruptFileError


def test_an_empty_comment_is_none_and_without_properties_there_is_no_file(tmp_path: Path) -> None:
    with interbed.load_catalog("lake", warehouse=tmp_path) as catalog:
        catalog.create_database("shop", properties={"comment": "x", "a": "b"})
        catalog.alter_database("shop", {"comment": ""}, ["a"])
        assert catalog.get_database("shop").comment is None
    assert list((tmp_path / "shop.db").iterdir()) == []


def test_a_damaged_properties_file_is_reported(tmp_path: Path) -> None:
    with interbed.load_catalog("lake", warehouse=tmp_path) as catalog:
        catalog.create_database("shop", properties={"a": "b"})
        (tmp_path / "shop.db" / ".database-properties").write_text("[1]")
        with pytest.raises(CorruptFileError, match="database-properties does not hold"):
            catalog.get_database("shop")
