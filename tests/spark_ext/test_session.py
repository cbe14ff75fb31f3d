"""`configure` adds to the user's settings and replaces none of them."""

import re
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interbed.spark_ext import SparkSetupError, configure, jar_path, spark_settings
from interbed.spark_ext.session import REDACTION, SECRETS


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings from outside, and no running session."""
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "SPARK_REMOTE", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


def _options(builder: SparkSession.Builder) -> dict[str, str]:
    return dict(builder._options)


def test_a_bare_builder_gets_jar_extensions_and_this_python() -> None:
    options = _options(configure(SparkSession.Builder()))

    assert options["spark.jars"] == str(jar_path())
    assert options["spark.sql.extensions"] == "interbed.spark.SparkExtensions"
    assert options["spark.pyspark.python"] == sys.executable


def test_settings_of_the_builder_are_kept() -> None:
    builder = (
        SparkSession.Builder()
        .config("spark.jars", "/a.jar,/b.jar")
        .config("spark.sql.extensions", "org.example.Extensions")
        .config("spark.pyspark.python", "/opt/python")
    )

    options = _options(configure(builder))

    assert options["spark.jars"] == f"/a.jar,/b.jar,{jar_path()}"
    assert options["spark.sql.extensions"] == "org.example.Extensions,interbed.spark.SparkExtensions"
    assert options["spark.pyspark.python"] == "/opt/python"


def test_the_pattern_of_secrets_is_added_to_the_users() -> None:
    alone = _options(configure(SparkSession.Builder()))
    beside = _options(configure(SparkSession.Builder().config(REDACTION, "(?i)mine")))

    assert (alone[REDACTION], beside[REDACTION]) == (SECRETS, f"(?i)mine|{SECRETS}")


def test_the_pattern_matches_credentials_of_object_stores_only() -> None:
    secret = (
        *("s3.access-key", "s3.secret-key", "s3.session-token", "fs.s3a.access.key", "fs.s3a.secret.key"),
        *("fs.azure.account.key", "fs.azure.account.key.a.dfs.core.windows.net", "fs.azure.sas.fixed.token"),
        *("fs.azure.sas.c.a.blob.core.windows.net", "fs.azure.account.oauth2.client.secret", "s3.access.key"),
    )
    shown = (
        *("s3.endpoint", "s3.region", "fs.s3a.path.style.access", "s3.conditional-put", "fs.azure.account.name"),
        *("fs.gs.auth.service.account.json.keyfile", "fs.azure.endpoint", "fs.azure.account.auth.type", "warehouse"),
    )

    assert [key for key in (*secret, *shown) if re.search(SECRETS, f"spark.sql.catalog.lake.{key}")] == [*secret]


def test_configuring_twice_changes_nothing() -> None:
    once = _options(configure(SparkSession.Builder()))

    assert _options(configure(configure(SparkSession.Builder()))) == once


def test_settings_of_the_command_line_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--jars /cli.jar --conf spark.sql.extensions=org.example.Cli --conf 'spark.x=a b' pyspark-shell",
    )

    options = _options(configure(SparkSession.Builder()))

    assert options["spark.jars"] == f"/cli.jar,{jar_path()}"
    assert options["spark.sql.extensions"] == "org.example.Cli,interbed.spark.SparkExtensions"


def test_settings_of_the_defaults_file_are_kept(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n\nspark.jars   /file.jar\nspark.sql.extensions=org.example.File\n"
    )

    options = _options(configure(SparkSession.Builder()))

    assert options["spark.jars"] == f"/file.jar,{jar_path()}"
    assert options["spark.sql.extensions"] == "org.example.File,interbed.spark.SparkExtensions"


def test_the_environments_python_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/env/python")

    assert "spark.pyspark.python" not in spark_settings()


def test_a_remote_session_is_refused_with_the_remedy() -> None:
    with pytest.raises(SparkSetupError, match="spark_settings"):
        configure(SparkSession.Builder().remote("sc://localhost"))


def test_a_running_session_without_the_jar_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class RunningSession:
        def getConf(self) -> dict[str, str]:
            return {}

    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", RunningSession())

    with pytest.raises(SparkSetupError, match="runs already"):
        configure(SparkSession.Builder())


def test_a_missing_jar_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("interbed.spark_ext.session._JAR", tmp_path / "none.jar")

    with pytest.raises(SparkSetupError, match=r"built with INTERBED_BUILD_WITHOUT_JAR=1 .*none\.jar"):
        spark_settings()


def test_a_source_tree_without_the_jar_names_the_command_that_builds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.setattr("interbed.spark_ext.session._JAR", tmp_path / "none.jar")

    with pytest.raises(SparkSetupError, match=r"none\.jar\. Run `python hatch_build\.py`"):
        spark_settings()
