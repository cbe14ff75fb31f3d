"""Contents of the wheel and the sdist, and the behaviour of an installation. `make dist` is the long form.

These are built with the packages of the tests, without the jar and without a network; test_build_hook.py covers the
jar.
"""

import os
import shutil
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hatch_build import JAR_IN_WHEEL, LINKED_FOLDERS, WITHOUT_JAR

from tests.packaging.contents import JAR, package_files, sdist_problems, wheel_problems
from tests.packaging.environment import DistributionError, VirtualEnvironment, run
from tests.packaging.source_tree import copy_sources, release_problems, version
from tests.support.packages import WHEEL_FOLDERS


@dataclass(frozen=True)
class BuiltDistributions:
    """Distributions, and the posix paths of the sources that they are made of."""

    sources: list[str]
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltDistributions:
    """A wheel without the jar, and an sdist."""
    tree = tmp_path_factory.mktemp("sources") / "interbed"
    sources = copy_sources(tree)
    _build(tree, "sdist", "wheel")
    return BuiltDistributions(sources, *(tree / "dist").glob("*.whl"), *(tree / "dist").glob("*.tar.gz"))


@pytest.fixture(scope="module")
def installed(built: BuiltDistributions, tmp_path_factory: pytest.TempPathFactory) -> VirtualEnvironment:
    """Environment with the wheel, and with the packages that the tests run with in place of downloads."""
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
    environment = VirtualEnvironment(folder)
    install: list[str | Path] = ["install", "--quiet", "--no-compile", "--no-deps", "--no-index", built.wheel]
    run([sys.executable, "-m", "pip", "--python", environment.python, *install], folder)
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = run([environment.python, "-c", asked], folder).strip()
    # A path file: installed packages come first, and the path files of the other environment, which name this source
    # tree, are not read.
    (Path(packages) / "packages.pth").write_text(f"{Path(pa.__file__).parents[1]}\n")
    return environment


def _build(tree: Path, *targets: str) -> None:
    options = [option for target in targets for option in ("-t", target)]
    run([sys.executable, "-m", "hatchling", "build", "-d", "dist", *options], tree, {**os.environ, WITHOUT_JAR: "1"})


def test_the_wheel_holds_the_package_and_nothing_else(built: BuiltDistributions) -> None:
    assert wheel_problems(built.wheel, built.sources, version(), with_jar=False) == []


def test_the_sdist_is_the_source_tree_with_its_metadata(built: BuiltDistributions) -> None:
    assert sdist_problems(built.sdist, built.sources, version()) == []


def test_the_sdist_builds_the_same_wheel_as_the_tree(built: BuiltDistributions, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()

    _build(tree, "wheel")

    assert (tree / "dist" / built.wheel.name).read_bytes() == built.wheel.read_bytes()


def test_an_installed_wheel_works_without_a_jdk_and_reports_the_missing_jar(installed: VirtualEnvironment) -> None:
    printed = installed.smoke(version(), with_jar=False)

    assert printed.splitlines()[1:] == [
        "created, changed and read a table (file system)",
        "created, changed and read a table (server)",
        "no Spark extension, as asked for",
    ]


def test_the_smoke_test_detects_a_wrong_version(installed: VirtualEnvironment) -> None:
    with pytest.raises(DistributionError, match=r"interbed.__version__: '.*' instead of '9\.9\.9'"):
        installed.smoke("9.9.9", with_jar=False)


def test_files_that_do_not_belong_into_a_wheel_are_named(built: BuiltDistributions, tmp_path: Path) -> None:
    wheel = tmp_path / built.wheel.name
    shutil.copy2(built.wheel, wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("interbed/storage/test_rows.py", "")

    assert wheel_problems(wheel, built.sources, version(), with_jar=True) == [
        f"{wheel.name} lacks {JAR}.",
        f"{wheel.name} has interbed/storage/test_rows.py, which does not belong there.",
    ]


def test_java_sources_scripts_and_tests_do_not_belong_into_the_package() -> None:
    sources = [
        "storage/a.py",
        "spark_ext/jvm/src/A.java",
        "thrift_idl/generate.sh",
        "tests/storage/test_a.py",
        "hatch_build.py",
    ]

    assert package_files(sources) == {"interbed/storage/a.py"}


def test_the_wheel_the_links_and_the_checks_name_the_same_folders() -> None:
    linked = {folder: f"interbed/{name}" for name, folder in LINKED_FOLDERS.items()}

    assert {**linked, "src/interbed": "interbed"} == WHEEL_FOLDERS
    assert JAR == JAR_IN_WHEEL


def test_a_tag_that_is_not_the_version_is_refused() -> None:
    assert release_problems("v9.9.9")[0].startswith(f"The tag is v9.9.9, but src/interbed/__init__.py says {version()}")
