"""`interbed spark settings` prints the settings of an application, in three forms."""

import json
import shlex
import sys

import pytest
from click.testing import CliRunner

from interbed.cli import main
from interbed.spark_ext import jar_path
from interbed.spark_ext.session import REDACTION, SECRETS


@pytest.fixture(autouse=True)
def no_python_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No PYSPARK_PYTHON, which would take precedence over this interpreter."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


def _settings(*arguments: str) -> str:
    outcome = CliRunner().invoke(main, ["spark", "settings", *arguments])
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_settings_are_printed_as_arguments_of_spark_submit() -> None:
    words = shlex.split(_settings("--catalog", "lake", "-o", "warehouse=file:/a b"))

    assert words[:2] == ["--jars", str(jar_path())]
    assert words[2:] == [
        "--conf",
        "spark.sql.extensions=interbed.spark.SparkExtensions",
        "--conf",
        f"spark.pyspark.python={sys.executable}",
        "--conf",
        "spark.sql.catalog.lake=interbed.spark.SparkCatalog",
        "--conf",
        "spark.sql.catalog.lake.warehouse=file:/a b",
    ]


def test_settings_are_printed_as_json_and_as_lines_of_a_file() -> None:
    as_json = json.loads(_settings("--json", "-c", "spark_catalog", "--executor-python", "./env/bin/python"))

    assert as_json["spark.sql.catalog.spark_catalog"] == "interbed.spark.SparkSessionCatalog"
    assert as_json["spark.pyspark.python"] == "./env/bin/python"
    assert f"spark.jars {jar_path()}" in _settings("--properties").splitlines()
    # In a file the pattern needs no quotes, which arguments would.
    assert f"{REDACTION} {SECRETS}" in _settings("--properties").splitlines()
    assert REDACTION not in _settings()


@pytest.mark.parametrize("arguments", [["-o", "a=b"], ["-c", "lake", "-o", "novalue"]])
def test_options_without_a_catalog_or_a_value_are_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["spark", "settings", *arguments]).exit_code == 2
