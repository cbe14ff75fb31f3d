"""Settings of a Spark session for interbed: its jar, its SQL extensions and its Python.

Settings of the user, in the builder, on the command line (PYSPARK_SUBMIT_ARGS) or in spark-defaults.conf, are extended
and never replaced.

A session needs Spark 4.0 and Java 17, or newer ones. Both are searched as PySpark's own scripts do. Spark's version is
in the name of a jar (`jars/spark-core_2.13-4.1.4.jar`), Java's in the file `release` of its directory: neither PySpark
is imported nor Java started to get them.
"""

import importlib.util
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from interbed.storage.base.errors import InterbedError
from interbed.storage.base.shown_text import SECRET_NAMES

SPARK_MAJOR_MIN = 4
JAVA_MIN = 17
_JAVA_TIMEOUT_SECONDS = 30
_SPARK_ADVICE = "Run: pip install 'interbed[spark]'"


class SparkSetupError(InterbedError):
    """Spark can't be set up for interbed; the message has the remedy."""


def check_spark() -> None:
    """Raise SparkSetupError when PySpark would start a Spark older than 4.0; without a Spark there is no check."""
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


def java_found() -> str | None:
    """Return the Java that PySpark would start, and its version where it is known; None without one."""
    java = _java()
    if java is None:
        return None
    version = _java_version(java)
    return str(java) if version is None else f"{java}, Java {version}"


def spark_found() -> str | None:
    """Return the Spark that PySpark would start, and its version where it is known; None without one."""
    home, version = spark_home(), _spark_version()
    return home if home is None or version is None else f"{home}, Spark {version}"


def _java_advice() -> str:
    return f"Install one (Debian: apt-get install openjdk-{JAVA_MIN}-jre-headless) and set JAVA_HOME to its directory"


def _java() -> Path | None:
    """Return the java that Spark's scripts start: that of JAVA_HOME, or the first on the PATH; None without one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")
    return None if found is None else Path(found)


def _java_version(java: Path) -> int | None:
    """Return the feature release, such as 17, or 8 for 1.8; None when it is unknown."""
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
    """Return the version of the Spark that PySpark starts, without importing it; None without one."""
    home = spark_home()
    if home is None:
        return None
    for jar in sorted(Path(home).glob("jars/spark-core_*.jar")):
        found = re.search(r"spark-core_[\d.]+-(\d+\..*)\.jar$", jar.name)
        if found is not None:
            return found[1]
    return None


def spark_home() -> str | None:
    """Return the directory of the Spark that PySpark starts; None without one."""
    return os.environ.get("SPARK_HOME") or _pyspark_home()


def _pyspark_home() -> str | None:
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else os.path.dirname(found.origin)


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = "spark.jars"
EXTENSIONS = "spark.sql.extensions"
PYTHON = "spark.pyspark.python"
REDACTION = "spark.redaction.regex"
SECRETS = SECRET_NAMES
"""Names of settings and options that Spark masks. The jar has the same pattern (interbed.spark.catalog.Redaction)."""
TEXT_REDACTION = "spark.redaction.string.regex"
# Bounded, because Spark searches the texts of large plans.
_NAME = rf"[\w.-]{{0,99}}(?:{SECRETS.removeprefix('(?i)')})[\w.-]{{0,99}}"
_QUOTE = r"""\\*['"]"""
SECRET_TEXTS = (
    rf"""(?i){_QUOTE}{_NAME}{_QUOTE}\s*(?:=>?|,|:|value:)?\s*{_QUOTE}[^'"\\]*"""
    rf"""|\bspark[.]{_NAME}\s*=\s*[^\s'";,)]+"""
)
"""Secret options with their values in the text of statements and plans, which Spark masks in pages and its event log.

Statements are whole texts for a Spark Connect server and for the Thrift server. The jar has the same pattern.
"""
EXTENSION_CLASS = "interbed.spark.SparkExtensions"
CATALOGS = "spark.sql.catalog"
CATALOG_CLASS = "interbed.spark.SparkCatalog"
SESSION_CATALOG_CLASS = "interbed.spark.SparkSessionCatalog"
REMOTE = "spark.remote"

_JAR = Path(__file__).resolve().parent / "jvm" / "interbed-spark.jar"


def jar_path() -> Path:
    """Return the path of the extension's jar. Raises SparkSetupError when the installation lacks it."""
    if _JAR.is_file():
        return _JAR
    if (_JAR.parent / "src").is_dir():
        raise SparkSetupError(
            f"The Spark extension's jar is missing: {_JAR}. Run `python hatch_build.py` in this source tree; "
            "it needs a JDK 17 or newer."
        )
    raise SparkSetupError(
        f"This interbed was built with INTERBED_BUILD_WITHOUT_JAR=1 and has no Spark extension ({_JAR} is missing). "
        "Install a released wheel of interbed, or build it without that variable, with a JDK 17 or newer."
    )


def spark_settings(present: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings of a Spark application, for instance for spark-submit or a Spark Connect server.

    `present` has existing settings: lists are extended, and the Python is set only if it is missing there. Raises
    SparkSetupError without a jar, and when the Spark of this environment is older than 4.0.
    """
    check_spark()
    known = dict(present or {})
    settings = {
        JARS: _appended(known.get(JARS), str(jar_path())),
        EXTENSIONS: _appended(known.get(EXTENSIONS), EXTENSION_CLASS),
        REDACTION: _widened(known.get(REDACTION), SECRETS),
        TEXT_REDACTION: _widened(known.get(TEXT_REDACTION), SECRET_TEXTS),
    }
    if PYTHON not in known and "PYSPARK_PYTHON" not in os.environ:
        settings[PYTHON] = sys.executable
    return settings


def configure(builder: "SparkSession.Builder") -> "SparkSession.Builder":
    """Add interbed's settings to the builder of a session, and return the builder.

    >>> spark = configure(SparkSession.builder.master("local[2]")).getOrCreate()

    A builder with `remote("local[2]")` starts a Spark Connect server in this process, configured like a session.
    Raises SparkSetupError for a running session without the jar, for a remote server, which has to be configured itself
    (see spark_settings), for a Spark older than 4.0, a Java older than 17, and without a jar.
    """
    chosen: dict[str, str] = {k: str(v) for k, v in getattr(builder, "_options", {}).items()}
    if not chosen.get(REMOTE, os.environ.get("SPARK_REMOTE", "local")).startswith("local"):
        raise SparkSetupError(
            "A Spark Connect client can't add to its server. Start the server with the settings of "
            "interbed.spark_ext.spark_settings(), then connect without configure."
        )
    settings = spark_settings({**_defaults_file(), **_submit_arguments(), **chosen})
    _check_running(settings)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _appended(existing: str | None, value: str) -> str:
    items = [item.strip() for item in (existing or "").split(",") if item.strip()]
    return ",".join(items if value in items else [*items, value])


def _widened(pattern: str | None, ours: str) -> str:
    return ours if pattern is None else pattern if ours in pattern else f"{pattern}|{ours}"


def _check_running(settings: Mapping[str, str]) -> None:
    # PySpark is an optional dependency and slow to import.
    from pyspark import SparkContext

    running = SparkContext._active_spark_context
    if running is None:
        # PySpark is about to start the JVM. A running JVM has chosen its Java already.
        check_java()
        return
    conf = running.getConf()
    missing = [key for key in (JARS, EXTENSIONS) if not _contains(conf.get(key), settings[key])]
    if missing:
        raise SparkSetupError(
            f"A Spark session runs already, without interbed in its {' and '.join(missing)}, which can't be "
            "changed any more. Stop it (spark.stop()) before configure, or call configure before the first session."
        )


def _contains(present: str | None, wanted: str) -> bool:
    return wanted.rpartition(",")[2] in (present or "").split(",")


def _submit_arguments() -> dict[str, str]:
    """Return the settings of PYSPARK_SUBMIT_ARGS."""
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    found: dict[str, str] = {}
    for option, value in itertools.pairwise(arguments):
        if option == "--jars":
            found[JARS] = value
        elif option in ("--conf", "-c"):
            key, _, setting = value.partition("=")
            found[key] = setting
    return found


def _defaults_file() -> dict[str, str]:
    """Return the settings of spark-defaults.conf: one a line, key and value separated by blanks or an equals sign."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None:
        home = spark_home()
        if home is None:
            return {}
        folder = os.path.join(home, "conf")
    file = Path(folder) / "spark-defaults.conf"
    if not file.is_file():
        return {}
    found: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        parts = text.replace("=", " ", 1).split(None, 1) if "=" in text.split(None, 1)[0] else text.split(None, 1)
        found[parts[0]] = parts[1].lstrip("= ").strip() if len(parts) > 1 else ""
    return found
