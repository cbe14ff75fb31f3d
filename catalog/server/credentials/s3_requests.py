"""Requests of S3 that the server signs for a client: clients reach stores without a token service by them.

A client sends the server each request, and sends it to the store with the signature. A signature is valid for the
request that was checked, within the minutes that the store allows for a difference of clocks. The server signs by its
own keys, which come from the environment as for every program that uses AWS's library. The secret key never leaves it;
the key's id, and the session token of keys that have one, are part of each signed request.

Only requests on the objects of one directory are signed. A request is checked and then written again in one canonical
form: a path and a query that are encoded once, headers in lower case. This form is signed, so that the store reads what
was checked. What is not listed here is refused by name: actions, parameters and headers, among them those of access
lists, tags, locks and policies. A DeleteObjects names its objects in its body, whose hash is signed. Source: AWS,
Amazon S3 API Reference, and "Signature calculations for the Authorization header".
"""

import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

from interbed.catalog.server.credentials.issued import (
    CredentialsError,
    CredentialsUnavailableError,
    StorageOperation,
    table_location,
)
from interbed.catalog.server.credentials.issuers import S3_SCHEMES
from interbed.catalog.server.service.access.objects import SecuredObject, table_object
from interbed.catalog.server.service.directories.locations import parsed
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.repository import Repository
from interbed.storage.base.errors import load_extra

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"

DELETED_MAX = 1000
"""Objects of one DeleteObjects, the limit of S3."""

_URI = re.compile(r"[!-~]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_OPERATION_NAME = re.compile(r"[A-Za-z]+", re.ASCII)
_CONTENT_HASHES = frozenset({UNSIGNED_PAYLOAD, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"})

_READ, _WRITE = StorageOperation.READ, StorageOperation.WRITE

_COPY_SOURCE = "x-amz-copy-source"
_CONTENT_HASH = "x-amz-content-sha256"
_PREFIX = "x-amz-"
# The signer sets it by the server's clock: a date of the client would lengthen the validity.
_REPLACED = frozenset({"x-amz-date"})
_SIGNED_BESIDE = frozenset({"content-md5", "content-type"})
_HEADERS = frozenset(
    (
        *(_CONTENT_HASH, "x-amz-expected-bucket-owner", "x-amz-request-payer", "x-amz-user-agent"),
        *("x-amz-sdk-checksum-algorithm", "x-amz-trailer", "x-amz-decoded-content-length", "x-amz-mp-object-size"),
        "x-amz-te",
        *("x-amz-storage-class", "x-amz-metadata-directive", _COPY_SOURCE, "x-amz-copy-source-range"),
    )
)
_HEADER_FAMILIES = (
    *("x-amz-checksum-", "x-amz-meta-", "x-amz-server-side-encryption"),
    *("x-amz-copy-source-if-", "x-amz-copy-source-server-side-encryption-"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Request:
    """A request that a client wants to send. `headers` have the values of each name, in any case; `body` is that of a
    DeleteObjects.
    """

    method: str
    uri: str
    region: str
    headers: Mapping[str, Sequence[str]]
    body: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest:
    """A permitted request in canonical form. `headers` are those to be signed, but for the hash of the content."""

    method: str
    uri: str
    action: str
    headers: Mapping[str, str]
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """The address of a store: `endpoint` is https://host[:port], or None for that of AWS in the region."""

    region: str
    endpoint: str | None = None

    @property
    def scheme(self) -> str:
        """The scheme of its addresses."""
        return "https" if self.endpoint is None else urlsplit(self.endpoint).scheme

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts, with their ports, before which a virtual host has the name of a bucket."""
        if self.endpoint is not None:
            return frozenset({_host(self.scheme, urlsplit(self.endpoint).netloc)})
        domain = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        names = [f"{name}.{self.region}" for name in ("s3", "s3.dualstack", "s3-fips", "s3-fips.dualstack")]
        return frozenset(f"{name}.{domain}" for name in (*names, *(["s3"] if self.region == "us-east-1" else [])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _S3Action:
    """An action of S3: its method, whether it is one of a bucket, its parameters, and what a caller needs for it."""

    name: str
    method: str
    needs: StorageOperation
    of_bucket: bool = False
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset({"x-id"})

    def fits(self, method: str, of_bucket: bool, names: frozenset[str]) -> bool:
        """Return whether a request with parameters of these names is one of this action."""
        given = (method, of_bucket) == (self.method, self.of_bucket)
        return given and self.required <= names <= self.required | self.optional


_OF_READS = frozenset({"x-id", "versionId", "partNumber"})
_OF_LISTS = frozenset({"x-id", "delimiter", "max-keys", "encoding-type"})
_ACTIONS = (
    _S3Action(name="GetObject", method="GET", needs=_READ, optional=_OF_READS),
    _S3Action(name="HeadObject", method="HEAD", needs=_READ, optional=_OF_READS),
    _S3Action(
        name="ListObjectsV2",
        method="GET",
        needs=_READ,
        of_bucket=True,
        required=frozenset({"list-type", "prefix"}),
        optional=_OF_LISTS | {"continuation-token", "start-after", "fetch-owner"},
    ),
    _S3Action(
        name="ListObjects",
        method="GET",
        needs=_READ,
        of_bucket=True,
        required=frozenset({"prefix"}),
        optional=_OF_LISTS | {"marker"},
    ),
    _S3Action(name="GetBucketLocation", method="GET", needs=_READ, of_bucket=True, required=frozenset({"location"})),
    _S3Action(name="PutObject", method="PUT", needs=_WRITE),
    _S3Action(name="UploadPart", method="PUT", needs=_WRITE, required=frozenset({"partNumber", "uploadId"})),
    _S3Action(name="CreateMultipartUpload", method="POST", needs=_WRITE, required=frozenset({"uploads"})),
    _S3Action(name="CompleteMultipartUpload", method="POST", needs=_WRITE, required=frozenset({"uploadId"})),
    _S3Action(name="AbortMultipartUpload", method="DELETE", needs=_WRITE, required=frozenset({"uploadId"})),
    _S3Action(
        name="ListParts",
        method="GET",
        needs=_WRITE,
        required=frozenset({"uploadId"}),
        optional=frozenset({"x-id", "max-parts", "part-number-marker"}),
    ),
    _S3Action(name="DeleteObject", method="DELETE", needs=_WRITE),
    _S3Action(name="DeleteObjects", method="POST", needs=_WRITE, of_bucket=True, required=frozenset({"delete"})),
)
_COPYING = frozenset({"PutObject", "UploadPart"})


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Directory:
    """The objects of a directory of a bucket, which is named without slashes at its ends, and what a caller may do
    with them.
    """

    address: S3Address
    bucket: str
    directory: str
    operation: StorageOperation

    def checked(self, request: S3Request) -> CheckedRequest:
        """Return a request in the form that is signed. CredentialsError for one that is not permitted."""
        if request.region != self.address.region:
            raise CredentialsError(
                f"The region is {shortened(request.region)}, and the server signs for {self.address.region}"
            )
        origin, key, query = self._parted(request.uri)
        pairs = _pairs(query)
        action = self._action(request.method, key, pairs)
        headers = self._headers(request.headers, urlsplit(origin).netloc, action)
        given = headers.pop(_CONTENT_HASH, None)
        content_hash = given or UNSIGNED_PAYLOAD
        if action.name == "DeleteObjects":
            content_hash = self._hash_of_deletion(request.body)
            if given not in (None, content_hash):
                raise CredentialsError(f"The header {_CONTENT_HASH} is not the hash of the body")
        elif content_hash not in _CONTENT_HASHES and _HASH.fullmatch(content_hash) is None:
            raise CredentialsError(
                f"The header {_CONTENT_HASH} is {shortened(content_hash)}: chunks that are signed one by one cannot "
                "be signed by the server"
            )
        path = self._path(origin, key)
        text = "&".join(
            quote(name, safe="-_.~") + ("" if value is None else f"={quote(value, safe='-_.~')}")
            for name, value in pairs
        )
        return CheckedRequest(
            method=request.method,
            uri=f"{origin}{path}{f'?{text}' if text else ''}",
            action=action.name,
            headers=headers,
            content_hash=content_hash,
        )

    def _parted(self, uri: str) -> tuple[str, str, str]:
        """Return the origin, the decoded key, which is empty for the bucket itself, and the query of an address."""
        if _URI.fullmatch(uri) is None or "#" in uri or "\\" in uri:
            raise CredentialsError("The address has characters that an encoded address has not")
        try:
            parts = urlsplit(uri)
        except ValueError as error:
            raise CredentialsError("The address is invalid") from error
        host = _host(parts.scheme, parts.netloc)
        raw = parts.path or "/"
        if parts.scheme != self.address.scheme or not raw.startswith("/"):
            raise self._elsewhere(parts.scheme, host)
        if host in self.address.hosts:
            name, _, rest = raw[1:].partition("/")
            if _decoded(name) != self.bucket:
                raise CredentialsError(f"The bucket is {shortened(name)}, and the table is in {self.bucket}")
        elif host in {f"{self.bucket}.{each}" for each in self.address.hosts}:
            rest = raw[1:]
        else:
            raise self._elsewhere(parts.scheme, host)
        if "%2f" in rest.lower():
            raise CredentialsError("The key has an encoded slash")
        key = _decoded(rest)
        if key:
            self._check_key(key)
        return f"{parts.scheme}://{host}", key, parts.query

    def _elsewhere(self, scheme: str, host: str) -> CredentialsError:
        known = ", ".join(sorted(f"{self.address.scheme}://{each}" for each in self.address.hosts))
        return CredentialsError(
            f"{shortened(f'{scheme}://{host}')} is not the store, or a virtual host of another bucket. The server "
            f"signs for {self.bucket} at {known}"
        )

    def _path(self, origin: str, key: str) -> str:
        """Return the encoded path of a key, or of the bucket."""
        inner = "/" + quote(key, safe="/-_.~") if key else ""
        if urlsplit(origin).netloc in self.address.hosts:
            return f"/{quote(self.bucket, safe='-_.~')}{inner}"
        return inner or "/"

    def _action(self, method: str, key: str, pairs: Sequence[tuple[str, str | None]]) -> _S3Action:
        names = frozenset(name for name, _ in pairs)
        action = next((each for each in _ACTIONS if each.fits(method, not key, names)), None)
        if action is None:
            shown = shortened(", ".join(sorted(names)) or "no parameters")
            level = "an object" if key else "the bucket"
            raise CredentialsError(f"{shortened(method)} of {level} with {shown} is not an action that is signed")
        if action.needs is _WRITE and self.operation is not _WRITE:
            raise CredentialsError(f"The caller may only read the table, and {action.name} changes it")
        values = dict(pairs)
        if values.get("list-type", "2") != "2" or not _OPERATION_NAME.fullmatch(values.get("x-id") or "x"):
            raise CredentialsError(f"{action.name} has an invalid list-type or x-id")
        if "prefix" in action.required:
            self._check_key(values["prefix"] or "", "The prefix of a list")
        return action

    def _headers(self, given: Mapping[str, Sequence[str]], host: str, action: _S3Action) -> dict[str, str]:
        """Return the headers that are signed."""
        found: dict[str, str] = {}
        seen: set[str] = set()
        for spelled, values in given.items():
            name = spelled.lower()
            if name in ("authorization", "x-amz-security-token"):
                raise CredentialsError(f"The request has the header {name}: it is signed already")
            if name == "host" and [_host(self.address.scheme, value) for value in values] != [host]:
                raise CredentialsError("The header host is not the host of the address")
            if name in _REPLACED or not (name in _SIGNED_BESIDE or name.startswith(_PREFIX)):
                continue
            if name not in _SIGNED_BESIDE | _HEADERS and not name.startswith(_HEADER_FAMILIES):
                raise CredentialsError(f"The header {shortened(name)} is not one that is signed")
            if name in seen or len(values) != 1 or _HEADER_VALUE.fullmatch(values[0]) is None:
                raise CredentialsError(f"The header {name} has several values, or an invalid one")
            if name.startswith(_COPY_SOURCE) and action.name not in _COPYING:
                raise CredentialsError(f"{action.name} does not copy, and has the header {name}")
            if name == _COPY_SOURCE:
                self._check_copy_source(values[0])
            seen.add(name)
            found[name] = values[0]
        return found

    def _check_copy_source(self, value: str) -> None:
        text = value.removeprefix("/")
        # Stores differ in what a plus sign means; a question mark begins the version.
        if _URI.fullmatch(text) is None or set("+?#\\") & set(text) or "%2f" in text.lower():
            raise CredentialsError("The copied object is not named as bucket/key, encoded, without a version")
        bucket, _, key = text.partition("/")
        if _decoded(bucket) != self.bucket:
            raise CredentialsError(f"The copied object is in {shortened(bucket)}, and the table in {self.bucket}")
        self._check_key(_decoded(key), "The copied object")

    def _hash_of_deletion(self, body: str | None) -> str:
        """Return the hash of the body of a DeleteObjects, whose keys are all in the directory."""
        if body is None:
            raise CredentialsError(
                "DeleteObjects is signed only with its body, which names the objects: send it with the request, or "
                "delete one object by one"
            )
        for key in _deleted_keys(body):
            self._check_key(key, "A deleted object")
        return hashlib.sha256(body.encode()).hexdigest()

    def _check_key(self, key: str, subject: str = "The object") -> None:
        """Check that a key, or the prefix of a list, begins with the directory and has nothing that a store that keeps
        objects as files could read as another directory.
        """
        above = f"{self.directory}/"
        if not key.startswith(above):
            raise CredentialsError(f"{subject} is not in the directory of the table: {shortened(key)}")
        parts = key.removeprefix(above).split("/")
        if {".", ".."} & set(parts) or "" in parts[:-1] or any(ord(char) < 32 or char == "\x7f" for char in key):
            raise CredentialsError(f"{subject} has an empty or relative directory, or a control character")


def _host(scheme: str, netloc: str) -> str:
    """Return a host with its port in the form that is compared, without the default port."""
    return netloc.lower().removesuffix({"https": ":443", "http": ":80"}.get(scheme, ":"))


def _decoded(text: str) -> str:
    """Return percent-decoded text. CredentialsError if it is no UTF-8."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise CredentialsError("The address has encoded bytes that are no UTF-8") from error


def _pairs(query: str) -> list[tuple[str, str | None]]:
    """Return the decoded parameters of a query, None for one without a value. CredentialsError for two of a name."""
    found: dict[str, str | None] = {}
    for pair in query.split("&") if query else ():
        name, equals, value = pair.partition("=")
        decoded = _decoded(name)
        if decoded in found:
            raise CredentialsError(f"The parameter {shortened(decoded)} is given twice")
        found[decoded] = _decoded(value) if equals else None
    return list(found.items())


def _deleted_keys(body: str) -> list[str]:
    """Return the keys in the body of a DeleteObjects. CredentialsError for what another parser may read otherwise."""
    # Without declarations, comments and instructions, parsers do not differ, and entities do not expand.
    content = re.sub(r"\A\s*<\?xml [^<>?]*\?>", "", body)
    if "<!" in content or "<?" in content:
        raise CredentialsError("The body of DeleteObjects has declarations, comments or instructions")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError) as error:
        raise CredentialsError("The body of DeleteObjects is no XML") from error
    keys: list[str] = []
    if _local(root) != "Delete":
        raise CredentialsError("The body of DeleteObjects has another element at its root than Delete")
    for child in root:
        if _local(child) == "Quiet":
            continue
        names = [_local(each) for each in child]
        if _local(child) != "Object" or names != ["Key"] or len(child[0]) or not child[0].text:
            raise CredentialsError(
                "The body of DeleteObjects has something else than objects, each with one key and no version"
            )
        keys.append(child[0].text)
    if not 0 < len(keys) <= DELETED_MAX:
        raise CredentialsError(f"DeleteObjects names {len(keys)} objects; it may name 1 to {DELETED_MAX}")
    return keys


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """The address of a request, and the headers that its signature adds. `is_read` says that it changes nothing."""

    uri: str
    headers: Mapping[str, str] = field(repr=False)
    is_read: bool


Sign = Callable[[CheckedRequest, str], Mapping[str, str]]
"""Returns the headers of the signature of a request, for a region."""


class TableSigning:
    """Signs requests on the files of tables in the store of an address. Safe for many threads.

    `operation` returns what the client of the present call may do with the files of a table; it raises the error of a
    refusal. `sign` makes the signatures.
    """

    def __init__(
        self,
        repository: Repository,
        address: S3Address,
        operation: Callable[[SecuredObject], StorageOperation],
        sign: Sign,
    ) -> None:
        self.address = address
        self._repository = repository
        self._operation = operation
        self._sign = sign

    def check(self, catalog: str, database: str, name: str) -> None:
        """Check that requests on the files of a table can be signed. CredentialsError with the reason if not."""
        self._directory(catalog, database, name)

    def sign(self, catalog: str, database: str, name: str, request: S3Request) -> SignedRequest:
        """Return a request of the client with a signature. CredentialsError with the reason of a refusal."""
        checked = self._directory(catalog, database, name).checked(request)
        headers = self._sign(checked, self.address.region)
        return SignedRequest(uri=checked.uri, headers=headers, is_read=request.method in ("GET", "HEAD"))

    def _directory(self, catalog: str, database: str, name: str) -> S3Directory:
        operation = self._operation(table_object(catalog, database, name))
        location = self._repository.read(lambda transaction: table_location(transaction, catalog, database, name))
        place = parsed(location)
        if place.scheme not in S3_SCHEMES:
            raise CredentialsError(f"{database}.{name} is in {place.scheme}: the server signs no requests for it")
        return S3Directory(
            address=self.address, bucket=place.authority, directory="/".join(place.names), operation=operation
        )


class OwnKeys:
    """The server's keys of the store. Safe for many threads. MissingExtraError without boto3."""

    def __init__(self) -> None:
        boto3: Any = load_extra("boto3", needed_by="credentials_s3_signing")
        self._session = boto3.Session()
        self._guard = threading.Lock()
        self._keys: Any = None

    def sign(self, request: CheckedRequest, region: str) -> Mapping[str, str]:
        """Return the headers of the signature of a request. CredentialsUnavailableError without keys."""
        # Parts of boto3.
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        try:
            keys = self._found().get_frozen_credentials()
        except BotoCoreError as error:
            # Its text may have addresses and names of profiles, which concern the operator alone.
            raise CredentialsUnavailableError(f"The server's keys cannot be read: {type(error).__name__}") from error
        signed = AWSRequest(method=request.method, url=request.uri, headers=dict(request.headers))
        signer: Any = S3SigV4Auth(keys, "s3", region)
        # The server does not have the content of which this is the hash.
        signer.payload = lambda _: request.content_hash
        signer.add_auth(signed)
        return {name: str(value) for name, value in signed.headers.items() if name.lower() not in request.headers}

    def _found(self) -> Any:
        """Return the keys, which renew themselves if they are those of a session."""
        with self._guard:
            if self._keys is None:
                self._keys = self._session.get_credentials()
            if self._keys is None:
                raise CredentialsUnavailableError("The server has no keys of the store to sign requests with")
            return self._keys
