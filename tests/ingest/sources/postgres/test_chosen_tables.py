"""Tables that are selected by name but missing from the existing publication."""

import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest

from interbed.ingest.flow.messages import SourceChangedError
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.shop import lake, rows_of
from tests.ingest.sources.postgres.database import NAMES, Database

TABLES = (
    "CREATE TABLE a (id int PRIMARY KEY)",
    "CREATE TABLE b (id int PRIMARY KEY)",
    "INSERT INTO a VALUES (1)",
    "INSERT INTO b VALUES (1)",
)


@pytest.mark.parametrize(
    ("pattern", "way_out"), [("b", 'ADD TABLE "public"."b"'), ("nosuch", "No table .* such a name")]
)
def test_a_run_fails_when_no_published_table_is_selected(
    database: Database, tmp_path: Path, pattern: str, way_out: str
) -> None:
    database.execute(*TABLES, "CREATE PUBLICATION interbed FOR TABLE a")
    with pytest.raises(InvalidInputError, match=rf"'interbed'.*public\.a\. .*{way_out}"):
        database.read(lake(tmp_path), names=replace(NAMES, including=pattern))
    assert not database.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{database.slot}'")


def test_a_selected_table_that_is_not_published_is_warned_about(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute(*TABLES, "CREATE PUBLICATION interbed FOR TABLE a")
    catalog = lake(tmp_path)
    names = replace(NAMES, including="a|b")
    with caplog.at_level(logging.WARNING):
        database.read(catalog, names=names)
    [warning] = [each for each in caplog.messages if "does not have" in each]
    assert 'ALTER PUBLICATION "interbed" ADD TABLE "public"."b";' in warning
    statement = re.search("ALTER PUBLICATION .*;", warning)
    assert statement is not None
    database.execute(statement[0])
    caplog.clear()
    database.read(catalog, names=names)
    assert rows_of(catalog, "shop.b") == [{"id": 1}]
    assert not [each for each in caplog.messages if "does not have" in each]


def test_without_a_pattern_unpublished_tables_are_ignored(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute(*TABLES, "CREATE PUBLICATION interbed FOR TABLE a")
    catalog = lake(tmp_path)
    with caplog.at_level(logging.WARNING):
        database.read(catalog)
    assert catalog.list_tables("shop") == ["a"]
    assert not [each for each in caplog.messages if "does not have" in each]


def test_a_publication_that_leaves_out_changes_is_warned_about(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute(*TABLES, "CREATE PUBLICATION interbed FOR TABLE a, b WITH (publish = 'insert, update')")
    catalog = lake(tmp_path)
    with caplog.at_level(logging.WARNING):
        database.read(catalog)
    assert "sends no DELETE and no TRUNCATE, so tables of the lake keep the rows" in caplog.text
    caplog.clear()
    database.execute("ALTER PUBLICATION interbed SET (publish = 'insert, update, delete, truncate')")
    with caplog.at_level(logging.WARNING), pytest.raises(SourceChangedError, match="the publication was changed"):
        database.read(catalog)
    assert "sends no" not in caplog.text
