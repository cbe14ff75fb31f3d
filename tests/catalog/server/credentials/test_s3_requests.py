"""Requests of S3 that are signed for the directory of a table, and those that are refused."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.credentials.issued import CredentialsError, StorageOperation
from interbed.catalog.server.credentials.s3_requests import CheckedRequest, S3Address, S3Directory, S3Request

STORE = "http://store:9000"
TABLE = "/lake/wh/orders"
OF_STORE = S3Directory(
    address=S3Address(region="eu-central-1", endpoint=STORE),
    bucket="lake",
    directory="wh/orders",
    operation=StorageOperation.WRITE,
)
OF_AWS = replace(OF_STORE, address=S3Address(region="eu-central-1"))
READER = replace(OF_STORE, operation=StorageOperation.READ)
OWN, OTHER = "wh/orders/data/f.parquet", "wh/orders_old/data/f.parquet"


def asked(
    method: str, path: str, headers: Mapping[str, str] | None = None, body: str | None = None, region: str | None = None
) -> S3Request:
    """Return a request to the store, or to a full address."""
    return S3Request(
        method=method,
        uri=path if "://" in path else STORE + path,
        region=region or "eu-central-1",
        headers={name: [value] for name, value in (headers or {}).items()},
        body=body,
    )


def deletion(*keys: str) -> str:
    """Return the body of a DeleteObjects."""
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'


READS = [
    ("GetObject", "GET", f"/lake/{OWN}"),
    ("GetObject", "GET", f"/lake/{OWN}?versionId=abc&partNumber=1&x-id=GetObject"),
    ("GetObject", "GET", f"{TABLE}/data/day%3D2026-01-01/a%20b%2B%25.parquet"),
    ("HeadObject", "HEAD", f"/lake/{OWN}"),
    ("ListObjectsV2", "GET", "/lake?list-type=2&prefix=wh%2Forders%2Fdata%2F&delimiter=%2F&encoding-type=url"),
    ("ListObjectsV2", "GET", "/lake/?list-type=2&prefix=wh%2Forders%2F&continuation-token=a%2Fb%3D&max-keys=5"),
    ("ListObjects", "GET", "/lake?prefix=wh%2Forders%2Fda&marker=x"),
    ("GetBucketLocation", "GET", "/lake?location"),
]
WRITES = [
    ("PutObject", "PUT", f"/lake/{OWN}"),
    ("PutObject", "PUT", "/lake/wh/orders/"),
    ("UploadPart", "PUT", f"/lake/{OWN}?partNumber=1&uploadId=abc"),
    ("CreateMultipartUpload", "POST", f"/lake/{OWN}?uploads"),
    ("CompleteMultipartUpload", "POST", f"/lake/{OWN}?uploadId=abc"),
    ("AbortMultipartUpload", "DELETE", f"/lake/{OWN}?uploadId=abc"),
    ("ListParts", "GET", f"/lake/{OWN}?uploadId=abc&max-parts=10"),
    ("DeleteObject", "DELETE", f"/lake/{OWN}"),
]


@pytest.mark.parametrize(("action", "method", "path"), [*READS, *WRITES])
def test_a_writer_s_requests_are_signed_as_they_are(action: str, method: str, path: str) -> None:
    found = OF_STORE.checked(asked(method, path))
    assert (found.action, found.method, found.content_hash) == (action, method, "UNSIGNED-PAYLOAD")
    assert parted(found.uri) == parted(STORE + path)


@pytest.mark.parametrize(("action", "method", "path"), READS)
def test_a_reader_s_reads_are_signed(action: str, method: str, path: str) -> None:
    assert READER.checked(asked(method, path)).action == action


@pytest.mark.parametrize(("action", "method", "path"), WRITES)
def test_a_reader_s_changes_are_refused(action: str, method: str, path: str) -> None:
    with pytest.raises(CredentialsError, match=f"may only read the table, and {action} changes it"):
        READER.checked(asked(method, path))


def parted(uri: str) -> tuple[str, str, list[str]]:
    """Return the parts of an address that the store distinguishes."""
    parts = urlsplit(uri)
    return parts.netloc, unquote(parts.path).rstrip("/"), sorted(parts.query.split("&"))


@pytest.mark.parametrize(
    "host",
    [
        "s3.eu-central-1.amazonaws.com/lake",
        "s3.dualstack.eu-central-1.amazonaws.com/lake",
        "s3-fips.eu-central-1.amazonaws.com:443/lake",
        "lake.s3.eu-central-1.amazonaws.com",
        "LAKE.s3.dualstack.eu-central-1.amazonaws.com",
    ],
)
def test_hosts_of_aws_name_the_bucket_in_the_path_or_before(host: str) -> None:
    found = OF_AWS.checked(asked("GET", f"https://{host}/{OWN}"))
    assert found.uri == f"https://{host.lower().replace(':443', '')}/{OWN}"


def test_older_and_chinese_hosts() -> None:
    east = replace(OF_AWS, address=S3Address(region="us-east-1"))
    assert east.checked(asked("GET", f"https://lake.s3.amazonaws.com/{OWN}", region="us-east-1"))
    north = replace(OF_AWS, address=S3Address(region="cn-north-1"))
    host = "https://lake.s3.cn-north-1.amazonaws.com.cn"
    assert north.checked(asked("GET", f"{host}/{OWN}", region="cn-north-1"))
    with pytest.raises(CredentialsError, match="is not the store"):
        OF_AWS.checked(asked("GET", f"https://lake.s3.amazonaws.com/{OWN}"))


COPY = {"x-amz-copy-source": f"/lake/{quote(OWN)}"}
ATTACKS: list[tuple[str, S3Request]] = [
    # The objects of others.
    ("not in the directory", asked("GET", f"/lake/{OTHER}")),
    ("not in the directory", asked("PUT", "/lake/wh/orders")),
    ("not in the directory", asked("DELETE", "/lake/wh/orders_old/")),
    ("not in the directory", asked("GET", "/lake/wh/Orders/f")),
    ("not in the directory", asked("GET", "/lake/f")),
    ("not in the directory", asked("GET", "/lake//wh/orders/f")),
    ("not in the directory", asked("GET", "/lake/wh//orders/f")),
    ("The bucket is other", asked("GET", f"/other/{OWN}")),
    ("The bucket is", asked("GET", f"//lake/{OWN}")),
    ("The bucket is", asked("GET", f"/lake%2F{OWN}")),
    # What a store over files, or a proxy, may read as another path.
    ("relative directory", asked("GET", f"{TABLE}/../orders_old/f")),
    ("relative directory", asked("GET", f"{TABLE}/%2e%2e/orders_old/f")),
    ("relative directory", asked("GET", f"{TABLE}/.%2E/orders_old/f")),
    ("relative directory", asked("GET", f"{TABLE}/./f")),
    ("relative directory", asked("GET", f"{TABLE}/data/..")),
    ("empty or relative", asked("GET", f"{TABLE}//f")),
    ("encoded slash", asked("GET", f"{TABLE}/..%2Forders_old/f")),
    ("encoded slash", asked("GET", f"{TABLE}%2ff")),
    ("control character", asked("GET", f"{TABLE}/a%00b")),
    ("control character", asked("GET", f"{TABLE}/a%0d%0ab")),
    ("no UTF-8", asked("GET", f"{TABLE}/%ff")),
    ("characters that an encoded address", asked("GET", f"{TABLE}/a b")),
    ("characters that an encoded address", asked("GET", f"{TABLE}/..\\orders_old\\f")),
    ("characters that an encoded address", asked("GET", f"{TABLE}/f#/../../orders_old")),
    ("characters that an encoded address", asked("GET", f"{TABLE}/f\r\nHost: x")),
    ("characters that an encoded address", asked("GET", f"{TABLE}/ordérs")),
    # Other hosts, and other regions.
    ("is not the store", asked("GET", f"http://elsewhere:9000/lake/{OWN}")),
    ("is not the store", asked("GET", f"http://store:9001/lake/{OWN}")),
    ("is not the store", asked("GET", f"http://store/lake/{OWN}")),
    ("is not the store", asked("GET", f"https://store:9000/lake/{OWN}")),
    ("is not the store", asked("GET", f"ftp://store:9000/lake/{OWN}")),
    ("is not the store", asked("GET", f"http://store:9000@elsewhere/lake/{OWN}")),
    ("is not the store", asked("GET", f"http://a:b@store:9000/lake/{OWN}")),
    ("is not the store", asked("GET", f"http://store.:9000/lake/{OWN}")),
    ("is not the store", asked("GET", f"http://other.store:9000/{OWN}")),
    ("is not the store", asked("GET", f"http://other.lake.store:9000/{OWN}")),
    ("is not the store", asked("GET", f"http://lakestore:9000/{OWN}")),
    ("address is invalid", asked("GET", f"http://[store:9000/lake/{OWN}")),
    ("region is us-east-1", asked("GET", f"/lake/{OWN}", region="us-east-1")),
    # Other actions.
    ("GET of an object with acl", asked("GET", f"/lake/{OWN}?acl")),
    ("PUT of an object with acl", asked("PUT", f"/lake/{OWN}?acl")),
    ("PUT of an object with tagging", asked("PUT", f"/lake/{OWN}?tagging")),
    ("PUT of an object with retention", asked("PUT", f"/lake/{OWN}?retention")),
    ("POST of an object with select", asked("POST", f"/lake/{OWN}?select&select-type=2")),
    ("POST of an object with restore", asked("POST", f"/lake/{OWN}?restore")),
    ("DELETE of an object with versionId", asked("DELETE", f"/lake/{OWN}?versionId=1")),
    ("PUT of an object with partNumber", asked("PUT", f"/lake/{OWN}?partNumber=1")),
    ("with uploadId, uploads", asked("POST", f"/lake/{OWN}?uploads&uploadId=1")),
    ("GET of an object with response-content-type", asked("GET", f"/lake/{OWN}?response-content-type=text%2Fhtml")),
    ("PATCH of an object", asked("PATCH", f"/lake/{OWN}")),
    ("OPTIONS of an object", asked("OPTIONS", f"/lake/{OWN}")),
    ("get of an object", asked("get", f"/lake/{OWN}")),
    ("GET of the bucket with no parameters", asked("GET", "/lake")),
    ("HEAD of the bucket", asked("HEAD", "/lake")),
    ("DELETE of the bucket", asked("DELETE", "/lake")),
    ("PUT of the bucket", asked("PUT", "/lake")),
    ("GET of the bucket with policy", asked("GET", "/lake?policy")),
    ("PUT of the bucket with policy", asked("PUT", "/lake?policy")),
    ("GET of the bucket with prefix, uploads", asked("GET", "/lake?uploads&prefix=wh%2Forders%2F")),
    ("GET of the bucket with prefix, versions", asked("GET", "/lake?versions&prefix=wh%2Forders%2F")),
    # Each parameter counts once, whatever its spelling.
    ("prefix is given twice", asked("GET", "/lake?list-type=2&prefix=wh%2Forders%2F&prefix=wh%2F")),
    ("prefix is given twice", asked("GET", "/lake?list-type=2&prefix=wh%2Forders%2F&pre%66ix=wh%2F")),
    ("invalid list-type", asked("GET", "/lake?list-type=1&prefix=wh%2Forders%2F")),
    ("invalid list-type or x-id", asked("GET", f"/lake/{OWN}?x-id=..%2F..")),
    # Lists of others.
    ("prefix of a list is not in", asked("GET", "/lake?list-type=2&prefix=")),
    ("prefix of a list is not in", asked("GET", "/lake?list-type=2&prefix=wh%2Forders")),
    ("prefix of a list is not in", asked("GET", "/lake?list-type=2&prefix=wh%2Forders_old%2F")),
    ("prefix of a list is not in", asked("GET", "/lake?prefix")),
    ("prefix of a list has an empty or rel", asked("GET", "/lake?list-type=2&prefix=wh%2Forders%2F..%2F")),
    ("GET of the bucket with list-type", asked("GET", "/lake?list-type=2")),
    # Signatures that the client has already, and what they would be valid for.
    ("X-Amz-Signature", asked("GET", f"/lake/{OWN}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0")),
    ("with AWSAccessKeyId", asked("GET", f"/lake/{OWN}?AWSAccessKeyId=a&Signature=b&Expires=1")),
    ("has the header authorization", asked("GET", f"/lake/{OWN}", {"Authorization": "AWS4-HMAC-SHA256 x"})),
    ("has the header x-amz-security-token", asked("GET", f"/lake/{OWN}", {"X-Amz-Security-Token": "x"})),
    (
        "chunks that are signed",
        asked("PUT", f"/lake/{OWN}", {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}),
    ),
    ("header host is not", asked("GET", f"/lake/{OWN}", {"Host": "elsewhere"})),
    # Headers that give rights, or that name other objects.
    ("header x-amz-acl is not", asked("PUT", f"/lake/{OWN}", {"x-amz-acl": "public-read"})),
    ("header x-amz-grant-read is not", asked("PUT", f"/lake/{OWN}", {"X-Amz-Grant-Read": "id=x"})),
    ("header x-amz-tagging is not", asked("PUT", f"/lake/{OWN}", {"x-amz-tagging": "a=b"})),
    ("object-lock-mode is not", asked("PUT", f"/lake/{OWN}", {"x-amz-object-lock-mode": "COMPLIANCE"})),
    ("website-redirect-location is not", asked("PUT", f"/lake/{OWN}", {"x-amz-website-redirect-location": "/x"})),
    (
        "bypass-governance-retention is not",
        asked("DELETE", f"/lake/{OWN}", {"x-amz-bypass-governance-retention": "true"}),
    ),
    ("copied object is not in the dir", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": f"/lake/{OTHER}"})),
    ("copied object is not in the dir", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": "lake/wh/orders"})),
    ("copied object is in other", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": f"other/{OWN}"})),
    ("copied object is in arn", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": f"arn:aws:s3:::a/object/{OWN}"})),
    ("copied object has", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": "lake/wh/orders/../orders_old/f"})),
    ("copied object has", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": "lake/wh/orders/%2e%2e/orders_old/f"})),
    ("copied object is not named", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": "lake/wh/orders%2Ff"})),
    ("copied object is not named", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": f"lake/{OWN}?versionId=1"})),
    ("copied object is not named", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": "lake/wh/orders/a+b"})),
    ("copied object is not named", asked("PUT", f"/lake/{OWN}", {"x-amz-copy-source": ""})),
    ("GetObject does not copy", asked("GET", f"/lake/{OWN}", COPY)),
    ("CreateMultipartUpload does not copy", asked("POST", f"/lake/{OWN}?uploads", COPY)),
    (
        "several values",
        replace(asked("PUT", f"/lake/{OWN}"), headers={"x-amz-copy-source": [f"lake/{OWN}", f"lake/{OTHER}"]}),
    ),
    ("several values", asked("PUT", f"/lake/{OWN}", {**COPY, "X-Amz-Copy-Source": f"/lake/{OWN}"})),
    ("an invalid one", asked("PUT", f"/lake/{OWN}", {"x-amz-meta-a": "b\r\nx-amz-acl: public-read"})),
    # A deletion names its objects in its body.
    ("only with its body", asked("POST", "/lake?delete")),
    ("deleted object is not in", asked("POST", "/lake?delete", body=deletion(OWN, OTHER))),
    ("deleted object has", asked("POST", "/lake?delete", body=deletion("wh/orders/../orders_old/f"))),
    ("names 0 objects", asked("POST", "/lake?delete", body=deletion())),
    ("names 1001 objects", asked("POST", "/lake?delete", body=deletion(*[OWN] * 1001))),
    ("no XML", asked("POST", "/lake?delete", body="<Delete>")),
    ("another element at its root", asked("POST", "/lake?delete", body="<Deleted/>")),
    ("not the hash", asked("POST", "/lake?delete", {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, deletion(OWN))),
    ("something else than objects", asked("POST", "/lake?delete", body=deletion(f"{OWN}<a/>"))),
    (
        "something else than objects",
        asked("POST", "/lake?delete", body=deletion(f"{OWN}</Key><VersionId>1</VersionId><Key>{OTHER}")),
    ),
    ("something else than objects", asked("POST", "/lake?delete", body=deletion(f"{OWN}</Key><Key>{OTHER}"))),
    ("something else than objects", asked("POST", "/lake?delete", body=deletion(""))),
    ("comments", asked("POST", "/lake?delete", body=deletion("wh/orders<!-- -->_old/f"))),
    ("comments", asked("POST", "/lake?delete", body=deletion("<![CDATA[wh/orders_old/f]]>"))),
    ("declarations", asked("POST", "/lake?delete", body=f'<!DOCTYPE a [<!ENTITY e "x">]>{deletion(OWN)}')),
    ("instructions", asked("POST", "/lake?delete", body=deletion(f"{OWN}<?x?>"))),
]


@pytest.mark.parametrize(("reason", "request_"), ATTACKS, ids=[f"{index}" for index in range(len(ATTACKS))])
def test_what_is_not_the_table_s_is_refused_with_the_reason(reason: str, request_: S3Request) -> None:
    with pytest.raises(CredentialsError) as error:
        OF_STORE.checked(request_)
    assert reason in str(error.value)


def test_a_deletion_is_signed_with_the_hash_of_its_body() -> None:
    body = deletion(OWN, "wh/orders/a&amp;b", "wh/orders/ß")
    found = OF_STORE.checked(asked("POST", "/lake?delete", body=body))
    assert found.content_hash == hashlib.sha256(body.encode()).hexdigest()
    given = {"x-amz-content-sha256": found.content_hash}
    assert OF_STORE.checked(asked("POST", "/lake?delete", given, body)) == found
    with pytest.raises(CredentialsError, match="DeleteObjects changes it"):
        READER.checked(asked("POST", "/lake?delete", body=body))


def test_headers_that_the_store_reads_are_signed() -> None:
    given = {
        "Content-MD5": "x",
        "Content-Type": "a/b",
        "Range": "bytes=0-1",
        "User-Agent": "x",
        "X-Amz-Date": "20990101T000000Z",
        "x-amz-content-sha256": "0" * 64,
        "x-amz-checksum-crc32": "AAAA",
        "x-amz-server-side-encryption": "AES256",
        "host": "store:9000",
        **COPY,
    }
    found = OF_STORE.checked(asked("PUT", f"/lake/{OWN}", given))
    assert found.content_hash == "0" * 64
    assert dict(found.headers) == {
        "content-md5": "x",
        "content-type": "a/b",
        "x-amz-checksum-crc32": "AAAA",
        "x-amz-server-side-encryption": "AES256",
        **COPY,
    }


def checked_or_none(request: S3Request) -> CheckedRequest | None:
    """Return a checked request, None for a refused one."""
    try:
        return OF_STORE.checked(request)
    except CredentialsError:
        return None


PIECES = st.sampled_from(
    [
        "/",
        "//",
        ".",
        "..",
        "%2e",
        "%2F",
        "%5c",
        "lake",
        "wh",
        "orders",
        "orders_old",
        "_old",
        "%00",
        "?",
        "&",
        "prefix=",
        "+",
        ":",
        "@",
        "f",
    ]
)


@given(st.sampled_from(["GET", "PUT", "DELETE"]), st.lists(PIECES, max_size=8).map("".join))
def test_a_signed_address_is_in_the_directory_whatever_was_asked(method: str, tail: str) -> None:
    found = checked_or_none(asked(method, f"/lake/wh/orders{tail}"))
    if found is not None:
        path = unquote(urlsplit(found.uri).path)
        assert path.startswith("/lake/wh/orders/")
        assert not {"", ".", ".."} & set(path.split("/")[1:-1])
        # The form that is signed is its own canonical form.
        assert OF_STORE.checked(replace(asked(method, ""), uri=found.uri)).uri == found.uri
