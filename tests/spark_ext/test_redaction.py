"""Redaction in Spark: Python and the jar have the same pattern, which covers all that Python redacts elsewhere."""

import re
from pathlib import Path

import pytest

from interbed.spark_ext.session import SECRETS
from interbed.storage.base.shown_text import is_secret

JAR = Path(__file__).parents[2] / "spark_ext" / "jvm" / "src"


def test_the_jar_has_the_pattern_of_python() -> None:
    [source] = JAR.rglob("Redaction.java")
    assert f'SECRETS =\n      "{SECRETS}";' in source.read_text(encoding="utf-8")


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
