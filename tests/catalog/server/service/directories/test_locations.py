"""Locations of clients: which are accepted, and the normalized form by which they are compared."""

from pathlib import Path

import pytest

from interbed.catalog.server.service.directories.locations import (
    DEPTH_MAX,
    InvalidLocationError,
    LocationRules,
    parsed,
    place_text,
)
from interbed.catalog.server.service.warehouse import Warehouse

REFUSED = {
    "..": "neither an absolute path",
    "x/y": "neither an absolute path",
    "": "neither an absolute path",
    "file:x": "relative",
    "file:": "no path",
    "/a/../b": "'.' or '..'",
    "file:/a/./b": "'.' or '..'",
    "s3a://b/x/..": "'.' or '..'",
    "file://host/x": "names the host",
    "FILE://p/wh": "names the host",
    "ftp://host/x": "the scheme 'ftp'",
    "C:\\x": "names no bucket",
    "/a\0b": "control character",
    "file:/a\nINFO forged": "control character",
    "/a\x1b[2J": "control character",
    "/a\u2028b": "control character",
    "file:/proc/self/root/x": "of the kernel",
    "/sys": "of the kernel",
    "s3a:///x": "names no bucket",
    "/" + "a" * 5000: "too long",
    "/a" * (DEPTH_MAX + 1): "too deep",
    "/" + "a" * 256: "more than 255 bytes",
}


@pytest.mark.parametrize("location", REFUSED)
@pytest.mark.attack("paths and links")
def test_a_refused_location_is_reported_on_one_line(location: str) -> None:
    with pytest.raises(InvalidLocationError, match=REFUSED[location]) as refused:
        LocationRules().check(location)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    "location",
    [
        "s3a://KEY:SECRET@bucket/x",
        "s3a://KEY:SEC/RET@bucket/x",
        "S3N://KEY:SECRET@bucket",
        "hdfs://user:SECRET@host:8020/x",
        "abfs://c:SECRET@account/x",
        "file://KEY:SECRET@localhost/x",
        "ftp://u:SECRET@h/x",
        "gs://KEY:SECRET@b/../x",
    ],
)
def test_a_location_with_a_secret_is_refused_without_repeating_it(location: str) -> None:
    with pytest.raises(InvalidLocationError) as refused:
        LocationRules().check(location)
    assert "SEC" not in str(refused.value)
    assert "RET@" not in str(refused.value)


@pytest.mark.parametrize(
    ("location", "stored", "compared"),
    [
        ("/a/b", "file:/a/b", "file:/a/b"),
        ("file:///a//b/", "file:/a/b", "file:/a/b"),
        ("FILE:/a/b", "file:/a/b", "file:/a/b"),
        ("file://localhost/a", "file:/a", "file:/a"),
        ("/a/%2e%2e/b", "file:/a/%2e%2e/b", "file:/a/%2e%2e/b"),
        ("/a/x=1/...", "file:/a/x=1/...", "file:/a/x=1/..."),
        ("/with space/é", "file:/with space/é", "file:/with space/é"),
        ("/dev/shm/x", "file:/dev/shm/x", "file:/dev/shm/x"),
        ("s3a://Bucket/a//b", "s3a://Bucket/a/b", "s3://bucket/a/b"),
        ("S3N://b/a/", "s3n://b/a/", "s3://b/a"),
        ("s3a://bucket", "s3a://bucket", "s3://bucket"),
        ("hdfs://NN:8020/a", "hdfs://NN:8020/a", "hdfs://nn/a"),
        ("hdfs:///a", "hdfs:///a", "hdfs:///a"),
        ("abfss://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net/a", None),
    ],
)
def test_an_accepted_location_is_stored_as_the_client_wrote_it(
    location: str, stored: str, compared: str | None
) -> None:
    assert Warehouse("file:/w").qualified(location) == stored
    if compared is not None:
        assert place_text(location) == compared


def test_two_names_of_one_container_are_the_same_location() -> None:
    assert place_text("wasbs://c@acc.blob.core.windows.net/a") == place_text("abfs://c@acc.dfs.core.windows.net/a")


def test_locations_of_earlier_versions_are_compared_without_dots_and_keys() -> None:
    assert place_text("file:/p/x/../wh") == "file:/p/wh"
    assert place_text("s3a://KEY:SECRET@b/x") == "s3://b/x"
    assert Warehouse("file:/w").qualified("file:/p/x/../wh", "file:/p/x/../wh") == "file:/p/x/../wh"


def test_a_bare_path_is_in_the_file_system_of_the_warehouse() -> None:
    assert Warehouse("hdfs://nn:8020/w").qualified("/x//y") == "hdfs://nn:8020/x/y"


def test_only_allowed_locations_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "out").symlink_to(tmp_path)
    rules = LocationRules(("file", "hdfs"), [f"{tmp_path}/allowed", "hdfs://nn/lake"])
    for taken in (f"{tmp_path}/allowed/x", f"file:{tmp_path}/allowed", "hdfs://NN:8020/lake/t"):
        rules.check(taken)
    for refused in (f"{tmp_path}/other", f"{tmp_path}/allowed2", f"{tmp_path}/allowed/out/x", "hdfs://nn/lakes"):
        with pytest.raises(InvalidLocationError, match="outside of the server's allowed_locations"):
            rules.check(refused)
    with pytest.raises(InvalidLocationError, match="allowed_schemes: file, hdfs"):
        rules.check("s3a://b/x")


def test_a_location_has_the_list_of_its_parent_directories() -> None:
    assert parsed("/a/b/c").above == ["file:", "file:/a", "file:/a/b"]
    assert parsed("s3a://b/x/y").above == ["s3://b", "s3://b/x"]
    assert parsed("/").holds(parsed("/a"))
    assert not parsed("/a").holds(parsed("/ab"))
