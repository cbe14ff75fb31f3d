"""An unsupported Spark or Java is reported in one line with the remedy, before a JVM is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from interbed.cli import main
from interbed.spark_ext import SparkSetupError, configure, spark_settings


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No running session, and no settings of the machine."""
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_HOME", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


def _spark(directory: Path, version: str) -> Path:
    """Create a directory that looks like a Spark of that version."""
    (directory / "jars").mkdir(parents=True)
    (directory / "jars" / f"spark-core_2.12-{version}.jar").touch()
    return directory


def _java(directory: Path, *, release: str | None = None, says: str = "") -> Path:
    """Create a JAVA_HOME with this file `release`; its java prints `says` in place of its version."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
    java.chmod(0o755)
    if release is not None:
        (directory / "release").write_text(release)
    return directory


def test_an_older_spark_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = str(_spark(tmp_path / "s", "3.5.9"))
    monkeypatch.setattr("interbed.spark_ext.session._pyspark_home", lambda: home)

    for action in (spark_settings, lambda: configure(SparkSession.Builder())):
        with pytest.raises(SparkSetupError) as caught:
            action()
        assert str(caught.value) == (
            f"interbed needs Spark 4.0 or newer, and {tmp_path}/s is Spark 3.5.9. Run: pip install 'interbed[spark]'."
        )


def test_the_command_line_reports_it_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(_spark(tmp_path / "s", "3.4.1")))

    outcome = CliRunner().invoke(main, ["spark", "settings"])

    assert outcome.exit_code == 1
    assert outcome.stderr == (
        f"Error: interbed needs Spark 4.0 or newer, and {tmp_path}/s is Spark 3.4.1. "
        "Unset SPARK_HOME, or set it to a newer Spark.\n"
    )


def test_printing_the_settings_requires_no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "none"))

    assert "spark.jars" in spark_settings()


@pytest.mark.parametrize(
    ("release", "says", "version"),
    [
        ('IMPLEMENTOR="Debian"\nJAVA_VERSION="11.0.22"\n', "", 11),
        ('JAVA_VERSION="1.8.0_392"\n', "", 8),
        (None, 'openjdk version "1.8.0_392"\nOpenJDK Runtime Environment', 8),
        (None, 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "16" 2021-03-16', 16),
    ],
    ids=["its file", "its file, before Java 9", "its own words, before Java 9", "its own words"],
)
def test_an_older_java_is_refused_with_the_remedy(
    release: str | None, says: str, version: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "java", release=release, says=says)))

    with pytest.raises(SparkSetupError) as caught:
        configure(SparkSession.Builder())

    assert str(caught.value) == (
        f"Spark needs Java 17 or newer, and {tmp_path}/java/bin/java is Java {version}. "
        "Install one (Debian: apt-get install openjdk-17-jre-headless) and set JAVA_HOME to its directory."
    )


@pytest.mark.parametrize("says", ['openjdk version "21.0.2" 2024-01-16', "something else"])
def test_a_newer_java_and_one_of_unknown_version_are_accepted(
    says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "java", says=says)))

    configure(SparkSession.Builder())


def test_a_missing_java_is_reported_with_the_searched_location(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkSetupError, match="JAVA_HOME is not set and no java is on the PATH"):
        configure(SparkSession.Builder())

    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(SparkSetupError, match=r"JAVA_HOME is .*/gone, which has no bin/java"):
        configure(SparkSession.Builder())


def test_the_java_of_a_running_jvm_is_not_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class RunningSession:
        def getConf(self) -> dict[str, str]:
            return spark_settings()

    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", RunningSession())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    configure(SparkSession.Builder())
