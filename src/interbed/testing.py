"""A real catalog server for tests and notebooks of one's own, up in about half a second.

    with interbed.testing.metastore() as uri:
        ...  # thrift://127.0.0.1:PORT, with a database and a warehouse that are gone afterwards

As a fixture of pytest:

    @pytest.fixture(scope="session")
    def metastore_uri():
        with interbed.testing.metastore() as uri:
            yield uri

`metastore(db="postgresql://user@host/database", warehouse="file:/tmp/lake")` keeps metadata and data where they are
wanted. Tests that run in parallel each have a server of their own: it takes a free port and prints nothing.
"""

from interbed.catalog.server.start.embedded import metastore

__all__ = ["metastore"]
