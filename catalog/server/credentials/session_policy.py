"""Session policies of S3: the actions that credentials allow, on the objects of one directory.

A session has the rights that both the role and its session policy have. Objects are named by a prefix that ends with a
slash, so that `orders` is not a prefix of `orders_old`. Source: AWS, IAM User Guide, "Session policies", and the list
of actions, resources and condition keys of Amazon S3.
"""

import json
import re

from interbed.catalog.server.credentials.issued import CredentialsError, StorageOperation

ROLE_ARN = re.compile(r"arn:(aws[a-z-]*):iam::\d{12}:role/.+")
ROLE_ARN_FORM = "arn:aws:iam::<account>:role/<name>"

_READ = ("s3:GetObject", "s3:GetObjectVersion")
_WRITE = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")

# Policies give these a meaning: wildcards, and the beginning of a variable.
_SPECIAL = frozenset("*?$")


def s3_session_policy(bucket: str, directory: str, operation: StorageOperation, *, partition: str = "aws") -> str:
    """Return the JSON of the policy for a directory of a bucket, which is named without slashes at its ends.

    CredentialsError for a bucket as a whole, and for names that a policy would read as a pattern.
    """
    if not directory:
        raise CredentialsError(f"{bucket} is a whole bucket, and credentials are for the directory of one table")
    if _SPECIAL & set(bucket + directory):
        raise CredentialsError(
            f"{bucket}/{directory} has one of the characters * ? $, which have a meaning in policies"
        )
    actions = _READ if operation is StorageOperation.READ else (*_READ, *_WRITE)
    arn = f"arn:{partition}:s3:::{bucket}"
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": list(actions), "Resource": [f"{arn}/{directory}/*"]},
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [arn],
                "Condition": {"StringLike": {"s3:prefix": [f"{directory}/*"]}},
            },
            {"Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": [arn]},
        ],
    }
    return json.dumps(document, separators=(",", ":"))
