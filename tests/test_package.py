"""What the package is made of: its public names, its types, and what an import brings along."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import interbed

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(interbed.__file__).parent


def test_every_public_name_is_there() -> None:
    assert sorted(interbed.__all__) == interbed.__all__
    assert dir(interbed) == interbed.__all__
    for name in interbed.__all__:
        assert getattr(interbed, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(interbed, "no_such_name")  # noqa: B009 - a plain attribute would not pass the type checkers.


def test_public_names_are_the_things_themselves() -> None:
    for name in set(interbed.__all__) - {"__version__"}:
        value = getattr(interbed, name)
        assert getattr(import_module(value.__module__), name) is value


def test_the_package_tells_type_checkers_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").read_text() == ""


def test_the_folders_of_the_package_are_the_projects() -> None:
    for link, folder in {
        "storage": "storage",
        "catalog": "catalog",
        "thrift_idl": "thrift_idl",
        "spark_ext": "spark_ext",
        "migrations": "alembic",
    }.items():
        assert (PACKAGE / link).resolve() == ROOT / folder


def test_the_folder_of_migrations_does_not_hide_the_library_of_its_name() -> None:
    # With the project's root on the path, a package `alembic` in it would be found before the library.
    assert not (ROOT / "alembic" / "__init__.py").exists()
    code = "import alembic, alembic.config; print(alembic.__file__)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stderr == ""
    assert "site-packages" in result.stdout


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("interbed", {"pyarrow", "thrift", "sqlalchemy", "pyspark", "interbed.storage", "interbed.catalog"}),
        ("interbed.storage.table.table", {"thrift", "sqlalchemy", "alembic", "pyspark", "interbed.catalog"}),
        ("interbed.catalog.factory", {"sqlalchemy", "alembic", "pyspark", "interbed.catalog.server"}),
        ("interbed.catalog.server.start.main", {"pyspark", "pyarrow"}),
    ],
)
def test_an_import_brings_along_nothing_that_it_does_not_need(module: str, unwanted: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert module in result.stdout.splitlines()
    loaded = set(result.stdout.splitlines())
    assert sorted(unwanted & loaded) == []
