"""The package: its public names, its types, the imports of an import; and the project's statements about it: version,
extras, dependencies, commands, files.
"""

import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.settings import SETTINGS
from tests.support.packages import WHEEL_FOLDERS
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(interbed.__file__).parent


def test_every_public_name_exists() -> None:
    assert sorted(interbed.__all__) == interbed.__all__
    assert dir(interbed) == interbed.__all__
    for name in interbed.__all__:
        assert getattr(interbed, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(interbed, "no_such_name")  # noqa: B009 - a plain attribute would not pass the type checkers.


def test_every_error_of_the_package_is_public_by_a_name_of_its_own() -> None:
    modules = [m.name for m in pkgutil.walk_packages([str(PACKAGE)], "interbed.") if ".thrift_idl." not in m.name]
    for module in modules:
        if not module.startswith(("interbed.migrations", "interbed.spark_ext.process.worker")):
            import_module(module)
    found = [e for e in errors_below(interbed.InterbedError) if not e.__name__.startswith("_")]
    names = [e.__name__ for e in found]
    assert len(names) == len(set(names))
    public = {name for name in interbed.__all__ if name.endswith("Error")}
    assert set(names) == public - {"InterbedError"}
    shown = interbed.__doc__ or ""
    assert [name for name in sorted(public) if name not in shown] == []
    # Errors that are internal to the server have other names.
    inside = {e.__name__ for e in errors_below(MetastoreError)}
    assert inside & public == set()


def errors_below(error: type[Exception]) -> set[type[Exception]]:
    """Return all classes derived from an error."""
    return {e for child in error.__subclasses__() for e in {child, *errors_below(child)}}


def test_public_names_are_the_original_objects() -> None:
    for name in set(interbed.__all__) - {"__version__"}:
        value = getattr(interbed, name)
        assert getattr(import_module(value.__module__), name) is value


def test_the_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").read_text() == ""


def test_the_folders_of_the_package_are_those_of_the_project() -> None:
    for folder, package in WHEEL_FOLDERS.items():
        if folder.startswith("src/"):
            continue
        link = package.removeprefix("interbed/")
        assert (PACKAGE / link).resolve() == ROOT / folder


def test_the_folder_of_migrations_does_not_hide_the_library_of_its_name() -> None:
    # With the project's root on the path, a package `alembic` in it would be found before the library.
    assert not (ROOT / "alembic" / "__init__.py").exists()
    code = "import alembic, alembic.config; print(alembic.__file__)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=at_most(60), check=False
    )
    assert result.stderr == ""
    assert "site-packages" in result.stdout


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("interbed", {"pyarrow", "thrift", "sqlalchemy", "pyspark", "interbed.storage", "interbed.catalog"}),
        ("interbed.storage.table.table", {"thrift", "sqlalchemy", "alembic", "pyspark", "interbed.catalog"}),
        ("interbed.catalog.client.factory", {"sqlalchemy", "alembic", "pyspark", "interbed.catalog.server"}),
        ("interbed.catalog.server.process.main", {"pyspark", "pyarrow"}),
    ],
)
def test_an_import_loads_no_unneeded_modules(module: str, unwanted: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=at_most(60), check=True
    )
    assert module in result.stdout.splitlines()
    loaded = set(result.stdout.splitlines())
    assert sorted(unwanted & loaded) == []


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _requirement_name(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_the_version_is_named_in_one_place() -> None:
    assert _project()["project"]["dynamic"] == ["version"]
    assert _project()["tool"]["hatch"]["version"] == {"path": "src/interbed/__init__.py"}
    assert "version" not in _project()["project"]
    assert _text("src/interbed/__init__.py").count(f'"{interbed.__version__}"') == 1


def test_the_changelog_has_the_version() -> None:
    # As its own section after the release; before, as the version that the section Unreleased becomes.
    changelog = _text("CHANGELOG.md")
    version = re.escape(interbed.__version__)
    released = re.search(rf"^## \[{version}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert re.search(r"^## \[Unreleased\]$", changelog, re.MULTILINE)
    assert released or re.search(rf"^## \[Unreleased\]\n\nBecomes {version}\b", changelog, re.MULTILINE)


def test_the_readme_names_the_existing_extras() -> None:
    extras = set(_project()["project"]["optional-dependencies"])
    pages = [_text("README.md"), *(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))]
    named = {
        extra for page in pages for group in re.findall(r"interbed\[([\w,]+)\]", page) for extra in group.split(",")
    }
    (listed,) = re.findall(r"Further extras: (.*?)\. From source", pages[0], re.DOTALL)
    described = set(re.findall(r"`(\w+)`", listed))
    assert named <= extras
    assert described | {"spark"} == extras


def test_each_dependency_is_explained() -> None:
    project = _project()
    groups = [project["build-system"]["requires"], project["project"]["dependencies"]]
    groups += [*project["project"]["optional-dependencies"].values(), *project["dependency-groups"].values()]
    needed = {_requirement_name(requirement) for group in groups for requirement in group} - {"interbed"}
    tables = _text("ARCHITECTURE.md").partition("## Dependencies, and why")[2]
    rows = re.findall(r"^\| ([^|]+) \|", tables, re.MULTILINE)
    explained = {_requirement_name(name) for row in rows for name in re.split(r", | \(", row)}
    assert sorted(needed - explained) == []


def test_each_dependency_of_development_has_one_version() -> None:
    pinned = {_requirement_name(line) for line in _text("constraints.txt").split()}
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in _text("constraints.txt").split())
    for group in _project()["dependency-groups"].values():
        assert sorted({_requirement_name(requirement) for requirement in group} - pinned) == []


def test_the_classifiers_name_the_oldest_python() -> None:
    project = _project()["project"]
    oldest = project["requires-python"].removeprefix(">=")
    named = [text.rpartition(" ")[2] for text in project["classifiers"] if "Python :: 3." in text]
    assert named[0] == oldest
    assert _project()["tool"]["mypy"]["python_version"] == _project()["tool"]["pyright"]["pythonVersion"] == oldest


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".github/workflows/ci.yml", ".ci/run"])
def test_pages_name_existing_make_targets(page: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", _text("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^|run: )make ([\w-]+)", _text(page), re.MULTILINE))
    assert named
    assert sorted(named - targets) == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_between_pages_have_targets(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", _text(page))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_workflows_run_actions_by_their_commits() -> None:
    # A tag in a third party's repository can be moved to other code.
    used = [
        line
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in re.findall(r"uses: (.*)", path.read_text())
    ]
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", line)] == []


def test_the_files_of_the_image_name_existing_files() -> None:
    dockerfile, ignored = _text("docker/Dockerfile"), _text("docker/Dockerfile.dockerignore")
    copied = re.findall(r"^COPY (\S+)", dockerfile, re.MULTILINE)
    # Only the copied files reach the builder; the wheel is built before.
    assert [f"!{source}" for source in copied] == [line for line in ignored.splitlines() if line.startswith("!")]
    assert [source for source in copied if source != "dist/*.whl" and not (ROOT / source).is_file()] == []
    assert set(re.findall(r"wheel\}\[(\w+)\]", dockerfile)) <= set(_project()["project"]["optional-dependencies"])
    (python,) = re.findall(r"^FROM python:([\d.]+)-slim", dockerfile, re.MULTILINE)
    assert f"Programming Language :: Python :: {python}" in _project()["project"]["classifiers"]
    assert "dockerfile: docker/Dockerfile" in _text("docker/compose.yaml")


def test_the_image_sets_existing_settings() -> None:
    settings = {f"INTERBED_SERVER_{name.upper()}" for name in SETTINGS}
    for file in ("Dockerfile", "compose.yaml", "entrypoint.sh"):
        named = set(re.findall(r"INTERBED_SERVER_[A-Z_]*[A-Z]", _text(f"docker/{file}")))
        assert named
        assert sorted(named - settings) == []
