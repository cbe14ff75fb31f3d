"""Contents of a wheel and an sdist of interbed, compared with the source tree that they are built from.

A wheel has the Python of the folders of the package, the interface definitions, the template of migrations, the pages
of the console with their style sheet, and the jar; no Java source, no script, no test. An sdist is the source tree with
its metadata.
"""

import io
import tarfile
import zipfile
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

from tests.support.packages import WHEEL_FOLDERS

JAR = "interbed/spark_ext/jvm/interbed-spark.jar"
NAMES_OF_USERS = (
    "interbed/spark/SparkCatalog.class",
    "interbed/spark/SparkExtensions.class",
    "interbed/spark/interface",
)
"""Classes that users configure by name, and the jar's own metadata."""


def package_files(sources: Iterable[str]) -> set[str]:
    """Return the names in a wheel of those `sources` (posix paths in the source tree) that belong into the package."""
    return {
        f"{package}/{name.removeprefix(folder + '/')}"
        for name in sources
        for folder, package in WHEEL_FOLDERS.items()
        if name.startswith(f"{folder}/") and _is_packaged(PurePosixPath(name))
    }


def _is_packaged(path: PurePosixPath) -> bool:
    return path.suffix in (".py", ".thrift", ".mako", ".html", ".css") or path.name == "py.typed"


def wheel_problems(wheel: Path, sources: Iterable[str], version: str, with_jar: bool) -> list[str]:
    """Return the faults of a wheel, a sentence each; empty when it has exactly the expected contents."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = f"interbed-{version}.dist-info"
        described = {
            f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
        }
        expected = package_files(sources) | described | ({JAR} if with_jar else set())
        problems = _differences(wheel.name, names, expected)
        if wheel.name != f"interbed-{version}-py3-none-any.whl":
            problems.append(f"The wheel of version {version} is called {wheel.name}.")
        if f"{info}/METADATA" in names:
            problems += _metadata_problems(archive.read(f"{info}/METADATA").decode(), version)
        if with_jar and JAR in names:
            problems += _jar_problems(archive.read(JAR))
    return problems


def sdist_problems(sdist: Path, sources: Iterable[str], version: str) -> list[str]:
    """Return the faults of an sdist, a sentence each; empty when it is the source tree with its metadata."""
    top = f"interbed-{version}"
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
        problems = [f"{sdist.name} has {member.name}, which is no file." for member in members if not member.isfile()]
        problems += _differences(
            sdist.name, [member.name for member in members], {f"{top}/{name}" for name in [*sources, "PKG-INFO"]}
        )
        described = archive.extractfile(f"{top}/PKG-INFO") if not problems else None
        if described is not None:
            problems += _metadata_problems(described.read().decode(), version)
    return problems


def _differences(archive: str, names: list[str], expected: set[str]) -> list[str]:
    problems = [f"{archive} has {name} twice." for name in sorted({name for name in names if names.count(name) > 1})]
    problems += [f"{archive} lacks {name}." for name in sorted(expected - set(names))]
    problems += [f"{archive} has {name}, which does not belong there." for name in sorted(set(names) - expected)]
    return problems


def _metadata_problems(metadata: str, version: str) -> list[str]:
    fields = HeaderParser().parsestr(metadata)
    expected = {
        "Name": "interbed",
        "Version": version,
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
        "Description-Content-Type": "text/markdown",
    }
    return [
        f"The metadata say {field} = {fields[field]}, not {value}."
        for field, value in expected.items()
        if fields[field] != value
    ]


def _jar_problems(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as jar:
        names = jar.namelist()
    problems = [f"The jar lacks {name}." for name in NAMES_OF_USERS if name not in names]
    return problems + [f"The jar has {name}." for name in names if name.endswith(".java")]
