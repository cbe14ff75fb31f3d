"""The build hook that compiles the Spark extension's Java sources into the wheel.

It runs javac against the jars of the PySpark of the build environment (``build-system.requires`` names it), packs the
classes into ``interbed-spark.jar`` and, for a standard wheel, adds the jar as
``interbed/spark_ext/jvm/interbed-spark.jar``. An editable install finds the jar in ``spark_ext/jvm/``, where it also
lies for the tests; after a change of a Java source run ``python hatch_build.py``, which does the same outside of a
build.

The jar is reproducible: entries in the order of their names, all with one fixed time.

For an editable install the hook also links the folders at the root into ``src/interbed``, where Python looks for them.
The links are made, not kept in the repository, because not every way to carry a source tree carries links (archives,
some file systems), and a file with the link's text in it in their place breaks every import.
"""

import hashlib
import importlib.util
import os
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
# The oldest time that a zip entry can carry.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
JAR_PATH = Path("spark_ext/jvm/interbed-spark.jar")
SOURCE_FOLDERS = (Path("spark_ext/jvm/src"), Path("spark_ext/jvm/gen"))
RESOURCES = Path("spark_ext/jvm/src/META-INF")
PACKAGE_FOLDER = Path("src/interbed")
# What each folder at the root is called inside the package; the wheel's sources in pyproject.toml say the same.
LINKED_FOLDERS = {
    "catalog": "catalog",
    "migrations": "alembic",
    "spark_ext": "spark_ext",
    "storage": "storage",
    "thrift_idl": "thrift_idl",
}
INTERFACE = Path("thrift_idl/planner.thrift")
# By this resource the jar knows which interface it speaks; spark_ext/process/interface.py makes the same of that file.
INTERFACE_RESOURCE = Path("interbed/spark/interface")
INTERFACE_DIGITS = 16
JAR_IN_WHEEL = "interbed/spark_ext/jvm/interbed-spark.jar"
# Written by hand, so that the jar does not depend on the tool that packs it.
MANIFEST = "Manifest-Version: 1.0\r\nImplementation-Title: interbed-spark\r\n\r\n"


class JarBuildError(RuntimeError):
    """The jar cannot be built here; the message names what is missing or what javac said."""


class SparkJarHook(BuildHookInterface):
    """Builds the jar before hatchling collects a wheel's files."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; ``version`` is "standard" or "editable"."""
        jar = build_jar(Path(self.root))
        if version == "editable":
            link_folders(Path(self.root))
        else:
            build_data["force_include"][str(jar)] = JAR_IN_WHEEL


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
    javac = _find_javac()
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


def _find_javac() -> str:
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "javac")] if home else []
    candidates.append("javac")
    for candidate in candidates:
        found = shutil.which(candidate)
        if found:
            return found
    raise JarBuildError(
        "javac was not found in JAVA_HOME or on the PATH: the Spark extension is compiled while interbed is installed. "
        f"Install a JDK {JAVA_RELEASE} or newer (Debian: apt-get install openjdk-17-jdk-headless)."
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
        "Let pip build in isolation, or install pyspark>=4.0,<4.4 (not pyspark-client) first."
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
