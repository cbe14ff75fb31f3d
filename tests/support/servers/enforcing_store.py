"""S3 and AWS's token service with enforced rights: moto's server, which checks signatures and policies.

It keeps the policy of a session and does not apply it. Here a session has the rights that both its policy and that of
its role give, as in AWS.

`python enforcing_store.py` is moto's server with that; the functions are for tests.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/lake"
_PORT = re.compile(r"Running on http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class EnforcingStore:
    """A store with a bucket, and the keys of its only user, which may assume the role of the bucket's owner."""

    port: int
    bucket: str
    access_key: str
    secret_key: str = field(repr=False)

    @property
    def endpoint(self) -> str:
        """The address of both services."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that has the user's keys."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
        }

    def client(self, service: str, keys: Mapping[str, str] | None = None) -> Any:
        """Return boto3's client of a service with the user's keys, or with others."""
        import boto3

        own = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
        given = dict(own if keys is None else keys)
        return boto3.client(service, endpoint_url=self.endpoint, region_name="us-east-1", **given)


@contextmanager
def enforcing_store(bucket: str) -> Iterator[EnforcingStore]:
    """Run a store with an empty bucket, whose rights are enforced."""
    from tests.support.servers.http_servers import STOP_SECONDS_MAX, moto_python

    process = subprocess.Popen(
        [str(moto_python()), str(Path(__file__)), "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    reading = None
    try:
        assert process.stdout is not None
        port, said = None, []
        for line in process.stdout:
            said.append(line)
            found = _PORT.search(line)
            if found is not None:
                port = int(found[1])
                break
        assert port is not None, "".join(said)
        # It would wait at a full pipe.
        reading = threading.Thread(target=process.stdout.read, daemon=True)
        reading.start()
        yield _prepared(port, bucket)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=STOP_SECONDS_MAX)
        if reading is not None:
            reading.join(STOP_SECONDS_MAX)
        assert process.stdout is not None
        process.stdout.close()


def _prepared(port: int, bucket: str) -> EnforcingStore:
    """Create bucket, user and role while rights are not enforced yet, then have them enforced."""
    anybody = EnforcingStore(port=port, bucket=bucket, access_key="a", secret_key="b")
    anybody.client("s3").create_bucket(Bucket=bucket)
    iam = anybody.client("iam")
    user = iam.create_user(UserName="server")["User"]
    keys = iam.create_access_key(UserName="server")["AccessKey"]
    of_bucket = {"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::*"]}
    assuming = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": ROLE}
    iam.put_user_policy(UserName="server", PolicyName="all", PolicyDocument=_policy(of_bucket, assuming))
    trust = {"Effect": "Allow", "Principal": {"AWS": user["Arn"]}, "Action": "sts:AssumeRole"}
    iam.create_role(RoleName="lake", AssumeRolePolicyDocument=_policy(trust))
    iam.put_role_policy(RoleName="lake", PolicyName="bucket", PolicyDocument=_policy(of_bucket))
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/moto-api/reset-auth", b"0")
    assert connection.getresponse().status == http.client.OK
    connection.close()
    return EnforcingStore(port=port, bucket=bucket, access_key=keys["AccessKeyId"], secret_key=keys["SecretAccessKey"])


def _policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


# -- in the environment of moto ----------------------------------------------------------------------------------------


def enforce_session_policies() -> None:
    """Have moto check the policies of sessions, with their condition on the prefix of a list."""
    from moto.iam.access_control import AssumedRoleAccessKey, IAMPolicy, IAMRequestBase, PermissionResult
    from moto.sts.models import sts_backends

    checked = IAMRequestBase.check_action_permitted

    def check(self: Any, resource: str) -> None:
        checked(self, resource)
        key = self._access_key
        if not isinstance(key, AssumedRoleAccessKey):
            return
        roles = sts_backends[key.account_id][key.partition].assumed_roles
        policy = next(each.policy for each in roles if each.access_key_id == key._access_key_id)
        if policy is None:
            return
        document = json.loads(policy)
        kept = [each for each in document["Statement"] if _condition_holds(each, self._data)]
        document["Statement"] = [{k: v for k, v in each.items() if k != "Condition"} for each in kept]
        allowed = kept and IAMPolicy(json.dumps(document)).is_action_permitted(self._action, resource)
        if not kept or allowed != PermissionResult.PERMITTED:
            self._raise_access_denied()

    IAMRequestBase.check_action_permitted = check


def _condition_holds(statement: Mapping[str, Any], query: Mapping[str, Any]) -> bool:
    patterns = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
    if patterns is None:
        return True
    given = query.get("prefix", "")
    prefix = given[0] if isinstance(given, list) else given
    return any(fnmatchcase(prefix, pattern) for pattern in patterns)


if __name__ == "__main__":
    enforce_session_policies()
    from moto.server import main

    main(sys.argv[1:])
