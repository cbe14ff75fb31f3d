"""A metastore that decides what callers may do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.server.access.guarded import GuardedMetastore, guarded_metastore


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedMetastore]:
    """Return a metastore with grants, whose drops are final."""
    with guarded_metastore(tmp_path) as made:
        yield made


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[GuardedMetastore]:
    """Return a metastore with grants that keeps dropped objects."""
    with guarded_metastore(tmp_path, undrop_seconds=3600) as made:
        yield made
