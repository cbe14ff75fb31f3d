"""A KDC and a server with Kerberos for these tests. They run where the extra `kerberos` is installed."""

from collections.abc import Iterator

import pytest

from interbed.storage.base.errors import is_installed
from tests.support.servers.kdc import KeyDistributionCenter, running_kdc

collect_ignore_glob = [] if is_installed("gssapi") else ["test_*.py"]


@pytest.fixture(scope="session")
def kdc() -> Iterator[KeyDistributionCenter]:
    """Run a KDC, which this process and those that it starts use."""
    with running_kdc() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running
