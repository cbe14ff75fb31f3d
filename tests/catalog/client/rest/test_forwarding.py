"""File systems around another one pass on all calls of an object store's, with the same arguments."""

import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.rest.data_tokens import DataToken, DataTokenFileIO, DataTokenOrigin, TableTokens
from interbed.storage.io.api import (
    OBJECT_STORE_CAPABILITIES,
    FileIO,
    ReadAhead,
    SizedOpening,
    StoredEnd,
    VersionedFiles,
)
from interbed.storage.io.cached.file_io import CachedFileIO
from interbed.storage.io.cached.options import CacheOptions
from interbed.storage.io.parallel import BatchDeletion
from interbed.storage.io.stores.file_io import ObjectStoreFileIO

PATH = "s3://lake/t/LATEST"
ARGUMENTS: dict[str, Any] = {
    "path": PATH,
    "content": b"x",
    "durable": False,
    "paths": [PATH],
    "recursive": True,
    "source": PATH,
    "target": f"{PATH}-2",
    "size": 7,
    "unless": "1",
    "start": 1,
    "end": 2,
}


def public_calls(*kinds: type) -> dict[str, inspect.Signature]:
    """Return the methods that callers of an object store's files have, with their parameters."""
    return {
        name: inspect.signature(value)
        for kind in kinds
        for name, value in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(value)
    }


PROTOCOLS = public_calls(FileIO, SizedOpening, VersionedFiles, BatchDeletion)


class RecordedStore:
    """Object store that notes its calls; its files are empty."""

    scheme = "s3"
    capabilities = OBJECT_STORE_CAPABILITIES
    exclusive_create = True
    read_ahead = ReadAhead()

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []


def _recorded(name: str) -> Any:
    signature = inspect.signature(getattr(ObjectStoreFileIO, name))

    def call(self: RecordedStore, *given: Any, **named: Any) -> Any:
        bound = signature.bind(self, *given, **named)
        bound.apply_defaults()
        self.calls.append((name, {k: v for k, v in bound.arguments.items() if k != "self"}))
        empty = StoredEnd(size=0, start=0, held=b"", version="1")
        return {"end_of": empty, "open_sized": pa.BufferReader(b"")}.get(name)

    return call


for _name in PROTOCOLS:
    setattr(RecordedStore, _name, _recorded(_name))


def with_tokens(store: RecordedStore) -> Any:
    """Return a file system of data tokens that has opened the store."""
    token = DataToken(options={}, expires_millis=10**15)
    origin = DataTokenOrigin(CatalogOptions({}), Identifier("d", "t"), "1", "s3://lake/t")
    made = DataTokenFileIO(TableTokens(lambda: token, "d.t", lambda: 0), origin)
    made._opened = token, store  # type: ignore[assignment]
    return made


def called(files: Any, name: str, more: int) -> None:
    """Call a method with all of its parameters but the first `more` optional ones."""
    parameters = [p for p in PROTOCOLS[name].parameters.values() if p.name != "self"]
    needed = [ARGUMENTS[p.name] for p in parameters if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: ARGUMENTS[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    getattr(files, name)(*needed, **dict(list(named.items())[more:]))


@pytest.mark.parametrize("more", [0, 1, 2])
@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_data_tokens_pass_on_every_call(name: str, more: int) -> None:
    direct, store = RecordedStore(), RecordedStore()
    called(direct, name, more)
    called(with_tokens(store), name, more)
    by_end = {"open_input": None, "open_sized": ARGUMENTS["size"]}
    if name in by_end:
        # The file is opened by requests of ranges, each of which has the newest token.
        assert store.calls == [("end_of", {"path": PATH, "unless": None, "size": by_end[name]})]
    else:
        assert store.calls == direct.calls


@pytest.mark.parametrize("name", sorted(set(PROTOCOLS) - set(public_calls(VersionedFiles))))
def test_a_cache_passes_on_every_call(name: str, tmp_path: Path) -> None:
    direct, store = RecordedStore(), RecordedStore()
    called(direct, name, 0)
    cache = CachedFileIO(store, CacheOptions(directory=str(tmp_path)))  # type: ignore[arg-type]
    called(cache, name, 0)
    opened = [("open_sized", {"path": PATH, "size": None})]
    assert store.calls == (opened if name == "open_input" else direct.calls)


@pytest.mark.parametrize("name", ["scheme", "capabilities", "exclusive_create", "read_ahead"])
def test_properties_are_those_of_the_store(name: str, tmp_path: Path) -> None:
    store = RecordedStore()
    cache = CachedFileIO(store, CacheOptions(directory=str(tmp_path)))  # type: ignore[arg-type]
    assert getattr(cache, name) == getattr(store, name)
    assert hasattr(with_tokens(store), name)


def test_an_object_store_has_all_of_these_calls() -> None:
    assert set(PROTOCOLS) <= set(public_calls(ObjectStoreFileIO))
    assert set(public_calls(ObjectStoreFileIO)) - set(PROTOCOLS) <= {"of"}
