"""The one list of secret options: what it matches, and that no module has another one."""

import ast
import re

import pytest

from interbed.storage.base.shown_text import SECRET_NAMES, is_secret, masked, secrets_of, without_secrets
from tests.support.packages import source_files
from tests.support.source_trees import source_tree

_WORDS = ("password", "secret", "token", "credential")


@pytest.mark.parametrize(
    "key",
    [
        *("token", "credential", "s3.secret-key", "s3.access-key", "accessKeyId", "fs.s3.securityToken", "HMS_JWT"),
        *(
            "header.Authorization",
            "Cookie",
            "header.X",
            "spark.sql.catalog.lake.header.X",
            "sas",
            "azure_storage_sas_key",
            "fs.azure.sas.lake.dfs",
            "client.sas",
        ),
        *("ssl.key.pem", "ssl.key.password", "sasl.oauthbearer.config", "privateKey", "google.private.key.id"),
        *("encryption-key", "api_key", "fs.azure.account.key.a.dfs.core.windows.net", "sasl.oauthbearer.passphrase"),
    ],
)
def test_names_of_secrets(key: str) -> None:
    assert is_secret(key)
    assert secrets_of({key: "hush", "other": "shown"}) == ["hush"]
    assert "hush" not in masked(key, "hush")


@pytest.mark.parametrize(
    "key",
    ["kafka.sasl.mechanism", "sasl.username", "s3.endpoint", "primary-key", "sassy", "key", "skip.header.line.count"],
)
def test_names_of_other_options(key: str) -> None:
    assert not is_secret(key)
    assert masked(key, "shown") == "shown"


def test_a_secret_is_left_out_of_a_text_unless_it_is_a_short_word() -> None:
    assert without_secrets("a hush-hush and a bear", {"hush-hush", "hush-", "bear"}) == "a ****** and a bear"


def test_no_module_has_a_pattern_of_its_own() -> None:
    found = []
    for file in source_files():
        for node in ast.walk(source_tree(file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "|" in node.value:
                alternatives = re.split(r"[|()]", node.value.lower())
                if sum(word in alternatives for word in _WORDS) > 2:
                    found.append(f"{file.name}:{node.lineno}")
    assert found == []
    assert sum(word in SECRET_NAMES for word in _WORDS) == len(_WORDS)
