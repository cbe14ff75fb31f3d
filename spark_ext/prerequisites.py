"""What a Spark session needs before interbed can be part of it: Spark 4.0 and Java 17, or newer ones.

Both are looked for where PySpark's own scripts look. Spark's version is in the name of a jar
(`jars/spark-core_2.13-4.1.4.jar`), Java's in the file `release` of its directory, so that PySpark is not imported and
Java is not started to find them out.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from interbed.storage.base.errors import InterbedError

SPARK_MAJOR_MIN = 4
JAVA_MIN = 17
_JAVA_TIMEOUT_SECONDS = 30
_SPARK_ADVICE = "Run: pip install 'interbed[spark]'"


class SparkSetupError(InterbedError):
    """Spark can't be set up for interbed; the message says what to do instead."""


def check_spark() -> None:
    """Raise SparkSetupError when PySpark would start a Spark older than 4.0; without a Spark nothing is checked."""
    version = _spark_version()
    if version is not None and int(version.partition(".")[0]) < SPARK_MAJOR_MIN:
        by_variable = bool(os.environ.get("SPARK_HOME"))
        advice = "Unset SPARK_HOME, or set it to a newer Spark" if by_variable else _SPARK_ADVICE
        raise SparkSetupError(
            f"interbed needs Spark {SPARK_MAJOR_MIN}.0 or newer, and {spark_home()} is Spark {version}. {advice}."
        )


def check_java() -> None:
    """Raise SparkSetupError when PySpark would find no Java, or one older than 17."""
    java = _java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = (
            f"JAVA_HOME is {home}, which has no bin/java" if home else "JAVA_HOME is not set and no java is on the PATH"
        )
        raise SparkSetupError(f"Spark needs Java {JAVA_MIN} or newer, and {where}. {_java_advice()}.")
    version = _java_version(java)
    if version is not None and version < JAVA_MIN:
        raise SparkSetupError(f"Spark needs Java {JAVA_MIN} or newer, and {java} is Java {version}. {_java_advice()}.")


def _java_advice() -> str:
    return f"Install one (Debian: apt-get install openjdk-{JAVA_MIN}-jre-headless) and set JAVA_HOME to its directory"


def _java() -> Path | None:
    """The java that Spark's scripts start: JAVA_HOME's, else the first on the PATH; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")
    return None if found is None else Path(found)


def _java_version(java: Path) -> int | None:
    """The feature release, such as 17, or 8 for 1.8; None when Java does not say it."""
    release = java.resolve().parent.parent / "release"
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    if "JAVA_VERSION=" not in text:
        try:
            asked = subprocess.run(
                [java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        text = asked.stderr
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return None if found is None else int(found[1])


def _spark_version() -> str | None:
    """The version of the Spark that PySpark starts, known without importing it; None without one."""
    home = spark_home()
    if home is None:
        return None
    for jar in sorted(Path(home).glob("jars/spark-core_*.jar")):
        found = re.search(r"spark-core_[\d.]+-(\d+\..*)\.jar$", jar.name)
        if found is not None:
            return found[1]
    return None


def spark_home() -> str | None:
    """The directory of the Spark that PySpark starts; None without one."""
    return os.environ.get("SPARK_HOME") or _pyspark_home()


def _pyspark_home() -> str | None:
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else os.path.dirname(found.origin)
