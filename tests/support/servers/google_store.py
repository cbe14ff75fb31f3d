"""Emulator of Google Cloud Storage for the client in obstore: moto behind a proxy that renames headers.

The public emulators of that store lack its XML interface, which obstore uses: requests of S3 with other header names.
moto answers conditional puts. Credentials are not checked.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import StoreProxy

_TO_S3 = {"x-goog-copy-source": "x-amz-copy-source"}
_CONDITION = "x-goog-if-generation-match"
_OF_GOOGLE, _OF_S3 = "x-goog-meta-", "x-amz-meta-"
_ANY_SIGNATURE = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
"""Signature that every request gets: moto refuses anonymous writes, but does not check signatures."""


class _RenamingProxy(StoreProxy):
    def asked_headers(self, headers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        yield "Authorization", _ANY_SIGNATURE
        for given, value in headers:
            name = given.lower()
            if name == _CONDITION:
                # Generation 0 is a missing object; obstore sends no other one.
                assert value == "0", value
                yield "If-None-Match", "*"
            else:
                yield _TO_S3.get(name, name.replace(_OF_GOOGLE, _OF_S3)), value

    def answered_headers(self, headers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        for name, value in headers:
            yield name.lower().replace(_OF_S3, _OF_GOOGLE), value


@contextmanager
def running_google(bucket: str) -> Iterator[dict[str, str]]:
    """Run a store with an empty bucket, and yield its options by the names of Google's connector for Hadoop."""
    with running_s3(bucket) as store, _RenamingProxy.before(store) as proxy:
        yield {
            "fs.gs.storage.root.url": f"http://127.0.0.1:{proxy.port}",
            "fs.gs.auth.type": "UNAUTHENTICATED",
        }
