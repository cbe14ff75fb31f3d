"""Redaction in Spark: Python and the jar have the same patterns, which cover all that Python redacts elsewhere."""

import re
from pathlib import Path

import pytest

from interbed.catalog.client.options import FILE_SYSTEM_PREFIXES
from interbed.spark_ext.session import SECRET_TEXTS, SECRETS
from interbed.storage.base.shown_text import is_secret

JAR = Path(__file__).parents[2] / "spark_ext" / "jvm" / "src"


def test_the_jar_has_the_pattern_of_python() -> None:
    [source] = JAR.rglob("Redaction.java")
    text = SECRETS.replace("\\", "\\\\")
    assert f'SECRETS =\n      "{text}";' in source.read_text(encoding="utf-8")


def test_the_jar_has_pythons_prefixes_of_options_of_files() -> None:
    [source] = JAR.rglob("Redaction.java")
    prefixes = "|".join(prefix.replace(".", "[.]") for prefix in FILE_SYSTEM_PREFIXES)
    assert f'"^(?:{prefixes})"' in source.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE CATALOG x WITH ('type' = 'interbed', 'token' = 'hush', 'uri' = 'u')",
        r"query: \"CREATE CATALOG x WITH (\'s3.secret-key\' = \'hush\')\"",
        'options { key: "s3.secret-key" value: "hush" }',
        'key: "dlf.security-token"\n value: "hush"',
        "SET spark.sql.catalog.lake.token=hush",
        "map('sasl.password', 'hush')",
    ],
)
def test_a_secret_is_hidden_in_the_text_of_a_statement(text: str) -> None:
    assert "hush" not in re.sub(SECRET_TEXTS, "", text)


@pytest.mark.parametrize("text", ["Filter (token#5 = shown)", "columns=[token, shown]", "SELECT token AS shown FROM t"])
def test_columns_of_such_names_are_shown(text: str) -> None:
    assert re.sub(SECRET_TEXTS, "", text) == text


@pytest.mark.parametrize(
    "key",
    [
        "s3.access-key",
        "s3.secret-key",
        "credential",
        "s3.session-token",
        "fs.s3a.access.key",
        "fs.s3a.secret.key",
        "fs.s3a.session.token",
        "hadoop.fs.s3a.secret.key",
        "hadoop.fs.azure.account.key.lake.dfs.core.windows.net",
        "fs.s3.accessKeyId",
        "fs.s3.accessKeySecret",
        "fs.s3.securityToken",
        "fs.oss.accessKeyId",
        "fs.oss.accessKeySecret",
        "fs.azure.account.key.lake.dfs.core.windows.net",
        "fs.azure.sas.lake.dfs.core.windows.net",
        "fs.azure.account.oauth2.client.secret",
        "google.cloud.auth.service.account.private.key",
        "kafka.sasl.password",
    ],
)
def test_spark_redacts_everything_that_python_redacts(key: str) -> None:
    assert is_secret(key) == (re.search(SECRETS, key) is not None)
