"""`interbed metastore policy`: set, list and drop row filters and column masks in a server's database."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interbed.catalog.server.migration.command import metastore
from tests.catalog.server.access.guarded import GuardedMetastore, guarded_metastore

Run = Callable[..., Result]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedMetastore]:
    """Return a metastore with the table `sales.orders`."""
    with guarded_metastore(tmp_path) as made:
        yield made


@pytest.fixture
def policy(guarded: GuardedMetastore) -> Run:
    """Return the function that runs a command about policies."""

    def run(command: str, *arguments: str) -> Result:
        db = f"sqlite:///{guarded.root / 'metastore.db'}"
        return CliRunner().invoke(metastore, ["policy", command, "--db", db, *arguments])

    return run


def _ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def _warehouse(guarded: GuardedMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERBED_SERVER_WAREHOUSE", f"file:{tmp_path / 'warehouse'}")


def test_policies_are_set_listed_and_dropped(policy: Run) -> None:
    assert "No policies." in _ok(policy("list", "sales.orders"))
    found = _ok(policy("set-filter", "sales.orders", "id > 5", "--to", "group eu", "--except", "user ann"))
    assert found == "set the row filter filter of the table hive.sales.orders\n"
    found = _ok(policy("set-mask", "Sales.Orders", "name", "'hidden'"))
    assert found == "set the mask mask-name of the column name of the table hive.sales.orders\n"
    first, second = json.loads(_ok(policy("list", "sales.orders", "--json")))
    assert (first["kind"], first["expression"], first["to"]) == ("filter", "id > 5", ["group:eu"])
    assert first["except"] == ["user:ann"]
    assert (second["kind"], second["column"], second["to"]) == ("mask", "name", ["role:public"])
    assert "role public" in _ok(policy("list", "sales.orders"))
    assert _ok(policy("drop", "sales.orders", "filter")) == "dropped the policy filter of the table hive.sales.orders\n"
    assert len(json.loads(_ok(policy("list", "sales.orders", "--json")))) == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("set-filter", "sales.orders", "gone > 5"), "gone"),
        (("set-mask", "sales.orders", "name", "MD5(name)"), "is not a mask"),
        (("set-mask", "sales.orders", "dt", "NULL"), "partition column"),
        (("set-filter", "sales.nix", "id > 5"), "the table hive.sales.nix does not exist"),
        (("set-filter", "orders", "id > 5"), "DATABASE.TABLE"),
        (("set-filter", "sales.orders", "id > 5", "--to", "analysts"), "such as 'role analysts'"),
        (("set-filter", "sales.orders", "id > 5", "--to", "role nix"), "the role nix does not exist"),
        (("drop", "sales.orders", "nix"), "has no policy nix"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(policy: Run, arguments: tuple[str, ...], reason: str) -> None:
    result = policy(*arguments)
    assert result.exit_code != 0
    assert reason in result.output
