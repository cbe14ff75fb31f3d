"""Fixtures for tests of storage."""

import pytest

from interbed.storage.io.api import OBJECT_STORE_CAPABILITIES
from interbed.storage.io.local import LocalFileIO
from tests.support.shares import each_run


@pytest.fixture
def like_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the local disk pass for an object store, so that the code for object stores runs."""
    monkeypatch.setattr(LocalFileIO, "capabilities", OBJECT_STORE_CAPABILITIES)


@pytest.fixture(params=each_run(["disk", "store"], lambda kind: kind == "disk"))
def each_kind_of_store(request: pytest.FixtureRequest) -> None:
    """Run the test once with the local disk as it is, and in long runs also with `like_a_store`."""
    _take_for_what_it_says(request)


@pytest.fixture(params=["disk", "store"])
def both_kinds_of_store(request: pytest.FixtureRequest) -> None:
    """Run the test with the local disk as it is and with `like_a_store`."""
    _take_for_what_it_says(request)


def _take_for_what_it_says(request: pytest.FixtureRequest) -> None:
    if request.param == "store":
        request.getfixturevalue("like_a_store")
