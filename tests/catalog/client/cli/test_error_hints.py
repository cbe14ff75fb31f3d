"""Errors for common mistakes contain the correction: filters, keys, tags, names, Ctrl-C."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.commit import committed
from interbed.storage.commit.publication import Publication

FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("amount", pa.float64()),
    pa.field("dt", pa.date32()),
]
SCHEMA = pa.schema(FIELDS)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[interbed.Catalog]:
    """Create a catalog with a table of two snapshots."""
    with interbed.load_catalog(warehouse=tmp_path / "lake") as catalog:
        catalog.create_database("shop")
        table = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        for number in range(2):
            table.upsert([{"id": number, "name": "x", "amount": 1.0, "dt": None}])
        yield catalog


def run(lake: interbed.Catalog, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "-o", f"warehouse={lake.warehouse}"])


def said(result: Result) -> str:
    assert isinstance(result.exception, SystemExit), result.exception
    return " ".join(result.output.split())


FILTERS = [
    ("id == 1", "For `==`: equality is written `=`."),
    ("id = 1 && amount > 2", "For `&&`: write AND."),
    ("id = 1 || amount > 2", "For `||`: write OR."),
    ("id = 1 & amount > 2", "For `&`: write AND."),
    ("id = 1 | amount > 2", "For `|`: write OR."),
    ("!(id = 1)", "For `!`: write NOT"),
    ("name =~ 'x.*'", "For `=~`: write LIKE"),
    ("name ~ 'x'", "For `~`: write LIKE"),
    ("name = x", "Texts are written in single quotes: 'x'."),
    ('name = "x"', "Names are written in double quotes, texts in single ones: 'text'."),
    ("name = None", "For `None`: rows without a value are found by `IS NULL`."),
    ("amount = nan", "rows without a value are found by `IS NULL`."),
    ("amount = ''", "rows without a value are found by `amount IS NULL`"),
    ("dt = ''", "rows without a value are found by `dt IS NULL`"),
    ("id <> ''", "rows without a value are found by `id IS NULL`"),
    ("amount IN ('')", "rows without a value are found by `amount IS NULL`"),
]


@pytest.mark.parametrize(("text", "hint"), FILTERS)
def test_a_filter_in_another_dialect_is_refused_with_the_supported_form(
    lake: interbed.Catalog, text: str, hint: str
) -> None:
    table = lake.get_table("shop.orders")
    with pytest.raises(interbed.FilterError, match=re.escape(hint)):
        bound_filter(text, table.schema.fields)
    refused = run(lake, "table", "scan", "shop.orders", "--filter", text)
    assert (refused.exit_code, hint in said(refused)) == (1, True), refused.output


def test_an_empty_text_is_a_value_where_the_column_holds_texts(lake: interbed.Catalog) -> None:
    assert lake.get_table("shop.orders").scan(filter="name <> ''").count() == 2


def test_rollback_takes_the_name_of_a_tag_as_create_tag_does(lake: interbed.Catalog) -> None:
    assert run(lake, "table", "create-tag", "shop.orders", "before", "--snapshot", "1").exit_code == 0
    for wrong, message in (
        (["befor"], "shop.orders has no tag 'befor'; it has before. Did you mean 'before'?"),
        (["1"], "Snapshots are given by --snapshot 1."),
        (["before", "--snapshot", "1"], "Give one of TAG, --snapshot"),
        ([], "Give one of TAG, --snapshot"),
    ):
        refused = run(lake, "table", "rollback", "shop.orders", *wrong)
        assert message in said(refused), refused.output
    assert run(lake, "table", "rollback", "shop.orders", "before").output == "the newest snapshot is 1\n"
    assert lake.get_table("shop.orders").scan().count() == 1


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("id=one", "The key column 'id' of shop.orders: 'one' is not a value of type BIGINT."),
        ("di=1", "has no column 'di'; it has id, name, amount, dt."),
        ("name=x", "The primary key is id; a key given lacks 'id' and has 'name'"),
    ],
)
def test_get_reports_the_column_of_a_wrong_key(lake: interbed.Catalog, key: str, message: str) -> None:
    refused = run(lake, "table", "get", "shop.orders", key)
    assert (refused.exit_code, message in said(refused)) == (1, True), refused.output


def test_names_of_implicit_catalogs_are_not_in_errors(lake: interbed.Catalog, tmp_path: Path) -> None:
    tries: list[list[str]] = [
        ["table", "head", "shop.ordres"], ["table", "head", "shp.orders"], ["table", "list", "shp"],
        ["table", "drop", "shop.x", "--yes"], ["table", "rename", "shop.x", "shop.y"],
        ["table", "create", "shop.orders", "--column", "id INT"], ["catalog", "create-database", "shop"],
        ["catalog", "drop-database", "shp"], ["sql", "SELECT * FROM sys.tabels"],
        ["table", "alter", "shop.x", "--comment", "x"],
        ["table", "rename", "shop.orders", "shop.orders"],
    ]  # fmt: skip
    for words in tries:
        refused = run(lake, *words)
        assert refused.exit_code == 1, (words, refused.output)
        assert "default" not in said(refused), words
    assert f"There is no table 'shop.ordres' in the warehouse {tmp_path}/lake." in said(run(lake, *tries[0]))
    with pytest.raises(interbed.TableNotFoundError, match="in the catalog 'mine'"):
        interbed.load_catalog("mine", warehouse=tmp_path / "lake").get_table("shop.x")


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("before", "Interrupted. No snapshot was committed."),
        ("while", "Interrupted. It is not known whether snapshot 3 of "),
        ("after", "Interrupted. Only snapshot 3 of "),
    ],
)
def test_ctrl_c_reports_whether_a_snapshot_was_committed(
    lake: interbed.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, message: str
) -> None:
    monkeypatch.setattr(committed, "PROGRESS", committed.CommitProgress())
    monkeypatch.setattr("interbed.storage.commit.publication.PROGRESS", committed.PROGRESS)
    created, raced = Publication._created, Publication._created_or_not

    def interrupted(self: Publication, *given: Any) -> bool:
        if place == "before":
            raise KeyboardInterrupt
        if place == "after":
            created(self, *given)
        else:
            raced(self, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Publication, "_created_or_not" if place == "while" else "_created", interrupted)
    (tmp_path / "a.csv").write_text("id,name\n7,y\n")
    ended = run(lake, "table", "import", "shop.orders", str(tmp_path / "a.csv"))
    assert (ended.exit_code, message in said(ended)) == (1, True), ended.output
    assert lake.get_table("shop.orders").scan().count() == (2 if place == "before" else 3)


def test_many_commits_are_counted() -> None:
    found = committed.CommitProgress()
    for number in (1, 2):
        with found.creating("t", number):
            found.done(created=True)
    assert found.text == "2 snapshots were committed before that, snapshot 2 of t last."
    with pytest.raises(OSError, match="lost"), found.creating("t", 3):
        raise OSError("lost")
    assert found.text == "2 snapshots were committed before that, snapshot 2 of t last."


VALUES = [
    (
        "SELECT 9223372036854775807 + id FROM shop.orders",
        r"Overflow in addition of INT64 \(.* \+ 1\)\. Let .*DECIMAL\(38, 0\)",
    ),
    (
        "UPDATE shop.orders SET amount = 9223372036854775807 * (id + 2)",
        r"Overflow in multiplication .*CAST\(… AS DOUBLE\)",
    ),
    ("SELECT CAST(name AS INT) FROM shop.orders", r"Could not convert string 'x' to INT32.*\. TRY_CAST"),
    ("SELECT substring('x', 1, 99999999999999)", r"Substring length outside of supported range"),
    ("SELECT chr(-5)", r"Invalid UTF8 Codepoint -5\.$"),
]


@pytest.mark.parametrize(("statement", "words"), VALUES)
def test_values_that_do_not_fit_are_reported_with_the_way_out(
    lake: interbed.Catalog, statement: str, words: str
) -> None:
    assert re.search(rf"^Error: The statement can't be computed: {words}", said(run(lake, "sql", statement)))
