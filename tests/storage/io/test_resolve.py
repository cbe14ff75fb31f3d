"""Normal forms of locations, and refused locations."""

from collections.abc import Callable

import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.io.local import LocalFileIO
from interbed.storage.io.resolve import file_io_for, normalize_path, respelled
from interbed.storage.table.opening import open_store


@pytest.mark.parametrize("path", ["/lake/db.db", "file:/lake/db.db", "file:///lake/db.db", "file://host/lake/db.db/"])
def test_local_locations_have_one_normal_form(path: str) -> None:
    io, normal = file_io_for(path)
    assert normal == "/lake/db.db"
    assert isinstance(io, LocalFileIO)


def test_escapes_in_partition_directories_are_kept() -> None:
    assert normalize_path("file:/lake/t/dt=a%2Fb") == "/lake/t/dt=a%2Fb"


def test_hadoops_schemes_of_s3_are_normalized() -> None:
    assert normalize_path("s3a://bucket/lake/") == "s3://bucket/lake"


@pytest.mark.parametrize(
    ("location", "like", "reported"),
    [
        ("s3://bucket/t", "s3a://bucket", "s3a://bucket/t"),
        ("s3://bucket/t", "S3A://other/place", "s3a://bucket/t"),
        ("s3://bucket/t", "s3://bucket", "s3://bucket/t"),
        ("s3://bucket/t", "s3n://bucket", "s3://bucket/t"),
        ("s3://bucket/t", "hdfs://host/s3a", "s3://bucket/t"),
        ("gs://bucket/t", "gcs://bucket", "gs://bucket/t"),
        ("hdfs://host/t", "s3a://bucket", "hdfs://host/t"),
        ("/lake/t", "file:///lake", "/lake/t"),
        ("/lake/t", "s3a://bucket", "/lake/t"),
    ],
)
def test_a_location_is_reported_with_the_scheme_of_another_one(location: str, like: str, reported: str) -> None:
    assert respelled(location, like) == reported


@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("s3:///lake/warehouse", "s3:///lake/warehouse names no bucket"),
        ("s3a:///lake", "s3:///lake names no bucket"),
        ("gcs:///lake/warehouse", "gs:///lake/warehouse names no bucket"),
        ("abfss:///warehouse", "abfss:///warehouse names no container"),
        ("abfss://@account.dfs.core.windows.net/w", "abfss://@account.dfs.core.windows.net/w names no container"),
        ("wasb://@account.blob.core.windows.net", "names no container"),
    ],
)
def test_a_location_in_an_object_store_needs_a_bucket(location: str, named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        normalize_path(location)


@pytest.mark.parametrize(
    "location",
    [
        "s3://KEY:SECRET@lake/w",
        "s3a://SECRET@lake/w",
        "s3n://KEY:SEC/SECRET@lake/w",
        "gs://SECRET@lake",
        "abfss://c:SECRET@account.dfs.core.windows.net/w",
        "abfss://SECRET@c@account.dfs.core.windows.net/w",
        "s3:/KEY:SECRET@lake/w",
    ],
)
def test_a_location_with_credentials_is_refused(location: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        file_io_for(location)
    assert "SEC" not in str(refused.value)


@pytest.mark.parametrize("location", ["hdfs:///lake", "abfss://c@account.dfs.core.windows.net/w", "s3://lake/a@b:c"])
def test_a_location_that_only_resembles_one_with_credentials_is_accepted(location: str) -> None:
    assert normalize_path(location) == location


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/../other",
        "s3a://lake/w/../../other/t",
        "s3://lake/w/..",
        "s3://../w",
        "hdfs://host/w/../../etc",
        "hdfs:///../w",
        "gs://lake/..",
        "abfss://c@account.dfs.core.windows.net/w/../x",
        "memory://w/../x",
    ],
)
def test_a_location_in_an_object_store_must_not_lead_to_a_parent_directory(location: str) -> None:
    uses: list[Callable[[str], object]] = [
        file_io_for,
        open_store,
        lambda path: interbed.load_catalog("lake", warehouse=path),
        lambda path: interbed.load_table(path),
    ]
    for use in uses:
        with pytest.raises(InvalidInputError, match=r"by '\.\.'"):
            use(location)


def test_dots_within_a_name_are_no_parent_directory() -> None:
    assert normalize_path("s3://lake/a..b/..c/d../...") == "s3://lake/a..b/..c/d../..."


@pytest.mark.parametrize("path", ["", "s3:/bucket", "s3://", "nosuchscheme://x/y"])
def test_an_invalid_location_is_refused(path: str) -> None:
    with pytest.raises(InvalidInputError):
        file_io_for(path)
