"""The build hook that compiles the Spark extension's Java sources into the wheel.

It runs javac against the jars of the PySpark of the build environment (the hook asks for it there), packs the
classes into ``interbed-spark.jar`` and, for a standard wheel, adds the jar as
``interbed/spark_ext/jvm/interbed-spark.jar``. An editable install finds the jar in ``spark_ext/jvm/``, where it also
lies for the tests; after a change of a Java source run ``python hatch_build.py``, which does the same outside of a
build.

Without a JDK a build from source ends with one line that says what to do, before PySpark is downloaded. With
``INTERBED_BUILD_WITHOUT_JAR=1`` it needs neither, and the result lacks the jar: all of interbed but Spark works.

The jar is reproducible: entries in the order of their names, all with one fixed time.

For an editable install the hook also links the folders at the root into ``src/interbed``, where Python looks for them.
The links are made, not kept in the repository, because not every way to carry a source tree carries links (archives,
some file systems), and a file with the link's text in it in their place breaks every import.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

JAVA_RELEASE = "17"
COMPILE_TIMEOUT_SECONDS = 300
VERSION_TIMEOUT_SECONDS = 60
# Not in build-system.requires: its 400 MB are of no use to a build that lacks a JDK or leaves the jar out.
PYSPARK = "pyspark>=4.1,<4.2"
WITHOUT_JAR = "INTERBED_BUILD_WITHOUT_JAR"
# The oldest time that a zip entry can carry.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
JAR_PATH = Path("spark_ext/jvm/interbed-spark.jar")
SOURCE_FOLDERS = (Path("spark_ext/jvm/src"), Path("thrift_idl/java"))
RESOURCES = Path("spark_ext/jvm/src/META-INF")
PACKAGE_FOLDER = Path("src/interbed")
# What each folder at the root is called inside the package; the wheel's sources in pyproject.toml say the same.
LINKED_FOLDERS = {
    "catalog": "catalog",
    "iceberg": "iceberg",
    "ingest": "ingest",
    "migrations": "alembic",
    "optimizer": "optimizer",
    "spark_ext": "spark_ext",
    "storage": "storage",
    "thrift_idl": "thrift_idl",
}
INTERFACE = Path("thrift_idl/planner.thrift")
# By this resource the jar knows which interface it speaks; spark_ext/process/planner.py makes the same of that file.
INTERFACE_RESOURCE = Path("interbed/spark/interface")
INTERFACE_DIGITS = 16
JAR_IN_WHEEL = "interbed/spark_ext/jvm/interbed-spark.jar"
# Written by hand, so that the jar does not depend on the tool that packs it.
MANIFEST = "Manifest-Version: 1.0\r\nImplementation-Title: interbed-spark\r\n\r\n"


class JarBuildError(RuntimeError):
    """The jar cannot be built here; the message names what is missing or what javac said."""


class SparkJarHook(BuildHookInterface[Any]):
    """Builds the jar before hatchling collects a wheel's files."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build environment needs beside hatchling; exits with a message where there is no JDK."""
        try:
            if without_jar():
                return []
            find_javac()
        except JarBuildError as error:
            sys.exit(str(error))
        return [PYSPARK]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; ``version`` is "standard" or "editable". Exits with a message where that fails."""
        try:
            jar = None if without_jar() else build_jar(Path(self.root))
        except JarBuildError as error:
            sys.exit(str(error))
        if version == "editable":
            link_folders(Path(self.root))
        elif jar is not None:
            build_data["force_include"][str(jar)] = JAR_IN_WHEEL


def without_jar() -> bool:
    """Whether the environment asks for a build without the jar. Raises JarBuildError for an unknown value."""
    value = os.environ.get(WITHOUT_JAR, "")
    if value not in ("", "0", "1"):
        raise JarBuildError(f"{WITHOUT_JAR} is {value!r}; it takes 1 (build without the Spark extension's jar) or 0.")
    return value == "1"


def link_folders(root: Path) -> None:
    """Link the folders at ``root`` into the package, in place of whatever file or link has their name there."""
    for name, folder in LINKED_FOLDERS.items():
        link = root / PACKAGE_FOLDER / name
        target = Path(os.path.relpath(root / folder, link.parent))
        if link.is_symlink() and link.readlink() == target:
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target, target_is_directory=True)


def build_jar(root: Path) -> Path:
    """Compile the Java sources below ``root`` and return the jar's path. Raises JarBuildError."""
    sources = sorted(source for folder in SOURCE_FOLDERS for source in (root / folder).rglob("*.java"))
    if not sources:
        raise JarBuildError(f"No Java sources in {' or '.join(str(root / folder) for folder in SOURCE_FOLDERS)}.")
    javac = find_javac()
    jars = _pyspark_jars()
    # Listed one by one: in an argument file javac does not expand a wildcard.
    class_path = os.pathsep.join(_escaped(jar) for jar in sorted(jars.glob("*.jar")))
    with tempfile.TemporaryDirectory(prefix="interbed-javac-") as scratch:
        classes = Path(scratch) / "classes"
        arguments = Path(scratch) / "arguments"
        # An argument file, because some systems limit the length of a command line. Warnings are off because they would
        # be about generated code and about Spark's deprecations, which differ from version to version.
        arguments.write_text(
            "\n".join(
                [
                    f"--release {JAVA_RELEASE}",
                    "-encoding UTF-8",
                    "-proc:none",
                    "-nowarn",
                    "-Xlint:none",
                    f"-d {_quoted(classes)}",
                    f'-cp "{class_path}"',
                    "-Xmaxerrs 20",
                    *(_quoted(source) for source in sources),
                ]
            ),
            encoding="utf-8",
        )
        # javac ends before the better of the JVM's two compilers pays: with the quick one it takes a third of the time.
        command = [javac, "-J-XX:TieredStopAtLevel=1", f"@{arguments}"]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_SECONDS, check=False)
        if outcome.returncode != 0:
            raise JarBuildError(f"javac failed on the Spark extension (PySpark's jars in {jars}):\n{outcome.stderr}")
        for resource in (root / RESOURCES).rglob("*.*"):
            copy = classes / resource.relative_to((root / RESOURCES).parent)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(resource.read_bytes())
        digest = hashlib.sha256((root / INTERFACE).read_bytes()).hexdigest()[:INTERFACE_DIGITS]
        (classes / INTERFACE_RESOURCE).write_text(digest, encoding="ascii")
        return _pack(classes, root / JAR_PATH)


def _pack(classes: Path, jar: Path) -> Path:
    # Written beside and renamed, so that a session that starts meanwhile sees the old jar or the new one.
    jar.parent.mkdir(parents=True, exist_ok=True)
    partial = jar.with_name(f".{jar.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_entry("META-INF/MANIFEST.MF"), MANIFEST)
            for file in sorted(
                (p for p in classes.rglob("*") if p.is_file()), key=lambda path: path.relative_to(classes).as_posix()
            ):
                archive.writestr(_entry(file.relative_to(classes).as_posix()), file.read_bytes())
        partial.replace(jar)
    finally:
        partial.unlink(missing_ok=True)
    return jar


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, ZIP_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def find_javac() -> str:
    """The javac to compile with, of JAVA_HOME or on the PATH. Raises JarBuildError without one that is new enough."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "javac")] if home else []
    candidates.append("javac")
    javac = next((found for found in map(shutil.which, candidates) if found), None)
    if javac is None:
        raise JarBuildError(_way_out("javac was not found in JAVA_HOME or on the PATH."))
    # Asked, because some systems have a javac that only says where a JDK can be had.
    command = [javac, "-J-XX:TieredStopAtLevel=1", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=VERSION_TIMEOUT_SECONDS, check=False)
    version = re.match(r"javac (?:1\.)?(\d+)", answer.stdout or answer.stderr)
    if answer.returncode != 0 or version is None or int(version[1]) < int(JAVA_RELEASE):
        said = (answer.stdout + answer.stderr).strip().partition("\n")[0]
        raise JarBuildError(_way_out(f"{javac} is not of a JDK {JAVA_RELEASE} or newer (`javac -version`: {said})."))
    return javac


def _way_out(problem: str) -> str:
    return (
        f"{problem} Building interbed from source compiles its Spark extension: install a JDK {JAVA_RELEASE} or newer "
        f"(Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME; or set {WITHOUT_JAR}=1 to build without "
        "the Spark extension; wheels need no JDK."
    )


def _pyspark_jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    locations = list(found.submodule_search_locations or ()) if found else []
    for location in locations:
        jars = Path(location) / "jars"
        if any(jars.glob("spark-sql_*.jar")):
            return jars
    raise JarBuildError(
        "The build environment has no PySpark with jars, which the Spark extension is compiled against. "
        f"Let pip build in isolation, or install {PYSPARK!r} (not pyspark-client) first."
    )


def _escaped(path: Path) -> str:
    # javac's argument files take backslashes as escapes inside quotes.
    return str(path).replace("\\", "\\\\")


def _quoted(path: Path) -> str:
    return f'"{_escaped(path)}"'


if __name__ == "__main__":
    try:
        print(build_jar(Path(__file__).resolve().parent))
    except JarBuildError as error:
        sys.exit(str(error))
