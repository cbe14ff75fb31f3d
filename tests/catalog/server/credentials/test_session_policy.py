"""Session policies of S3: which objects and which lists they allow."""

import json
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.credentials.issued import CredentialsError, StorageOperation, s3_session_policy

NAMES = st.text(st.characters(exclude_characters="/*?$", exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)


def allows(policy: str, action: str, resource: str, prefix: str | None = None) -> bool:
    """Return whether a policy of AWS allows an action on a resource, for a list with this prefix."""
    for statement in json.loads(policy)["Statement"]:
        patterns = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        if (
            action in statement["Action"]
            and any(fnmatchcase(resource, pattern.replace("[", "[[]")) for pattern in statement["Resource"])
            and (patterns is None or any(fnmatchcase(prefix or "", each.replace("[", "[[]")) for each in patterns))
        ):
            return True
    return False


@given(NAMES, NAMES)
def test_a_policy_allows_the_objects_of_its_directory_alone(own: str, other: str) -> None:
    policy = s3_session_policy("lake", f"wh/{own}", StorageOperation.WRITE)
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert allows(policy, action, f"arn:aws:s3:::lake/wh/{own}/data/f.parquet")
        assert allows(policy, action, f"arn:aws:s3:::lake/wh/{other}/f.parquet") == (other == own)
        assert not allows(policy, action, f"arn:aws:s3:::lake/wh/{own}{other}/f.parquet")
        assert not allows(policy, action, f"arn:aws:s3:::other/wh/{own}/f.parquet")


def test_a_list_begins_in_the_directory() -> None:
    policy = s3_session_policy("lake", "wh/orders", StorageOperation.READ)
    bucket = "arn:aws:s3:::lake"
    assert allows(policy, "s3:ListBucket", bucket, "wh/orders/")
    assert allows(policy, "s3:ListBucket", bucket, "wh/orders/data/")
    for prefix in ("", "wh/", "wh/orders", "wh/orders_old/", None):
        assert not allows(policy, "s3:ListBucket", bucket, prefix)


def test_readers_change_nothing() -> None:
    policy = s3_session_policy("lake", "wh/orders", StorageOperation.READ)
    assert allows(policy, "s3:GetObject", "arn:aws:s3:::lake/wh/orders/f")
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
        assert not allows(policy, action, "arn:aws:s3:::lake/wh/orders/f")


@pytest.mark.parametrize("directory", ["", "wh/*", "wh/order?", "wh/${aws:username}"])
def test_what_policies_read_as_a_pattern_gets_none(directory: str) -> None:
    with pytest.raises(CredentialsError):
        s3_session_policy("lake", directory, StorageOperation.READ)


def test_other_partitions_of_aws_have_their_own_names() -> None:
    assert "arn:aws-cn:s3:::lake" in s3_session_policy("lake", "t", StorageOperation.READ, partition="aws-cn")
