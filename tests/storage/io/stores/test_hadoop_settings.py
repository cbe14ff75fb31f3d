"""A catalog's options translated to settings of Hadoop's S3 client."""

from pathlib import Path

import pytest

from interbed.storage.io.stores.settings import hadoop_scheme, hadoop_settings

KEYS = {"s3.access-key": "A", "s3.secret-key": "S"}
PROVIDERS = "org.apache.hadoop.fs.s3a."
BUCKET = "fs.s3a.bucket.lake."


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PROFILE", "REGION", "DEFAULT_REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)


def of_lake(options: dict[str, str]) -> dict[str, str]:
    """Return the settings of the bucket, without their common prefix."""
    settings, _ = hadoop_settings("s3://lake/warehouse", options)
    assert all(name.startswith(BUCKET) for name in settings)
    return {name.removeprefix(BUCKET): value for name, value in settings.items()}


@pytest.mark.parametrize(
    ("location", "scheme"),
    [
        ("s3://lake/warehouse", "s3a"),
        ("s3://lake", "s3a"),
        # Not a valid host name, as which Hadoop would parse it.
        ("s3://my_lake/warehouse", None),
        ("gs://lake/warehouse", None),
        ("abfss://c@a.dfs.core.windows.net/w", None),
        ("hdfs://host/w", None),
        ("/lake", None),
    ],
)
def test_only_s3_locations_have_a_scheme_of_hadoops_client(location: str, scheme: str | None) -> None:
    assert hadoop_scheme(location) == scheme


@pytest.mark.parametrize(
    "options",
    [
        {**KEYS, "s3.endpoint": "http://h:1", "s3.region": "eu-1"},
        {
            "fs.s3a.access.key": "A",
            "fs.s3a.secret.key": "S",
            "fs.s3a.endpoint": "h:1",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.endpoint.region": "eu-1",
        },
        {
            "fs.s3.accessKeyId": "A",
            "fs.s3.accessKeySecret": "S",
            "hadoop.fs.s3a.endpoint": "http://h:1",
            "fs.s3.region": "eu-1",
        },
    ],
)
def test_options_by_either_name_become_hadoops(options: dict[str, str]) -> None:
    assert of_lake(options) == {
        "endpoint": "http://h:1",
        "endpoint.region": "eu-1",
        "path.style.access": "true",
        "access.key": "A",
        "secret.key": "S",
        "aws.credentials.provider": f"{PROVIDERS}SimpleAWSCredentialsProvider",
    }


def test_temporary_keys_get_their_own_credentials_provider() -> None:
    found = of_lake({**KEYS, "s3.session-token": "T", "s3.path.style.access": "false"})
    assert (found["session.token"], found["path.style.access"], found["endpoint.region"]) == ("T", "false", "us-east-1")
    assert found["aws.credentials.provider"] == f"{PROVIDERS}TemporaryAWSCredentialsProvider"


def test_tuning_options_of_hadoops_client_are_passed_on_except_its_class() -> None:
    found = of_lake({**KEYS, "fs.s3a.threads.max": "7", "s3.connection.maximum": "9", "fs.s3a.impl": "x.Y"})
    assert (found["threads.max"], found["connection.maximum"], "impl" in found) == ("7", "9", False)


def test_keys_of_the_environment_are_used_as_by_interbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "E")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "F")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://env:1")
    found = of_lake({})
    assert (found["access.key"], found["secret.key"], found["endpoint"]) == ("E", "F", "http://env:1")
    assert of_lake(KEYS)["access.key"] == "A"


def test_no_credentials_provider_is_set_where_none_is_configured(tmp_path: Path) -> None:
    assert hadoop_settings("s3://lake/w", {"s3.endpoint": "http://h:1"}) == (
        {
            f"{BUCKET}endpoint": "http://h:1",
            f"{BUCKET}endpoint.region": "us-east-1",
            f"{BUCKET}path.style.access": "true",
        },
        False,
    )
    # Hadoop's client does not read profiles.
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = P\naws_secret_access_key = Q\n")
    settings, says = hadoop_settings("s3://lake/w", {})
    assert not says
    assert "P" not in settings.values()


@pytest.mark.parametrize(
    "provider",
    [
        f"{PROVIDERS}AnonymousAWSCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider",
    ],
)
def test_a_named_credentials_provider_is_passed_on_to_hadoop(provider: str) -> None:
    settings, says = hadoop_settings("s3://lake/w", {"fs.s3a.aws.credentials.provider": provider})
    assert (settings[f"{BUCKET}aws.credentials.provider"], says) == (provider, True)
