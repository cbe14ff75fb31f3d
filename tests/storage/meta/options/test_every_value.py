"""Invalid values of every option are refused at creation, by ALTER and as dynamic options.

The options and their kinds of values are those that docs/options.md lists.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from interbed import InvalidInputError, NotSupportedError, load_catalog, load_table
from interbed.catalog.client.api import Catalog
from interbed.storage.meta.options.reader import LONG_INTEGERS
from tests.support.option_table import OptionRow, table_options
from tests.support.tally import Tally

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int64())])
BAD = {
    "boolean": ("yes", "1", "", " true"),
    "integer": ("x", "1.5", "", " 5", "1_000", "٣", "99999999999999999999"),
    "number": ("x", "", "nan", "inf", "1_0.5"),
    "duration": ("x", "-5 min", "5 parsecs", ""),
    "size": ("x", "-1 kb", "5 zb", ""),
    "list of level:value": ("x", "1", "a:b"),
}
KINDS = (*BAD, "choice")


def bad_values(row: OptionRow) -> tuple[str, ...]:
    if row.kind == "integer" and row.key not in LONG_INTEGERS:
        return (*BAD["integer"], str(2**31))
    return ("nope", "") if " | " in row.kind else BAD.get(row.kind, ())


def options_of(kind: str) -> list[OptionRow]:
    rows = [r for r in table_options() if r.kind == kind or (kind == "choice" and " | " in r.kind)]
    return [r._replace(key=r.key.replace("<column>", "a")) for r in rows if "<kind>" not in r.key]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    catalog = load_catalog(warehouse=str(tmp_path_factory.mktemp("values")))
    catalog.create_database("d")
    catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    return catalog


def refusal(way: Callable[[Catalog, str, str], None], catalog: Catalog, key: str, value: str) -> str | None:
    """Return the text of the error; None where the value is accepted."""
    try:
        way(catalog, key, value)
    except (InvalidInputError, NotSupportedError) as error:
        return str(error)
    return None


def created(catalog: Catalog, key: str, value: str) -> None:
    catalog.create_table("d.new", SCHEMA, primary_keys=["id"], options={"bucket": "1", key: value})


def altered(catalog: Catalog, key: str, value: str) -> None:
    with catalog.get_table("d.t").update_schema() as update:
        update.set_option(key, value)


def copied(catalog: Catalog, key: str, value: str) -> None:
    catalog.get_table("d.t").copy({key: value})


def opened(catalog: Catalog, key: str, value: str) -> None:
    load_table(catalog.get_table("d.t").location, options={key: value})


@pytest.mark.parametrize("way", [created, altered, copied, opened], ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_value_is_refused(
    catalog: Catalog, kind: str, way: Callable[[Catalog, str, str], None], tally: Tally
) -> None:
    values = [(row.key, value) for row in options_of(kind) for value in bad_values(row)]
    answers = {(key, value): refusal(way, catalog, key, value) for key, value in values}
    assert {given: said for given, said in answers.items() if said is None or given[0] not in said} == {}
    tally("bad values of options", len(values))


@pytest.mark.parametrize("way", [created, altered, copied], ids=lambda way: way.__name__)
def test_a_default_is_an_accepted_value(tmp_path: Path, way: Callable[[Catalog, str, str], None]) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    for kind in ("boolean", "integer", "number", "choice"):
        for row in options_of(kind):
            text = row.default
            if not text.lstrip("-").replace(".", "").isdigit() and text not in ("true", "false"):
                continue
            said = refusal(way, catalog, row.key, text)
            # A contradiction with other options is tested elsewhere.
            assert said is None or "takes" not in said, f"{row.key} = {text}: {said}"
            catalog.drop_table("d.new", ignore_if_not_exists=True)
