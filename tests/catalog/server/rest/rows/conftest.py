"""A server whose clients read rows."""

from collections.abc import Iterator

import pytest

from tests.catalog.server.rest.rows.served_rows import RowsServer, rows_server
from tests.support.waits import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowsServer]:
    """Run a server with the table `sales.lake`."""
    with rows_server(tmp_path_factory.mktemp("rows")) as made:
        # A grant is in force half a second after it was given.
        wait_until(lambda: made.rows("clerk", {"columns": ["id"]}).status == 200)
        yield made
