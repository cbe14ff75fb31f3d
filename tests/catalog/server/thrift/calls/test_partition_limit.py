"""A server with a limit of partitions for each request (metastore.limit.partition.request)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import metastore_under_test, plain_client, table

TABLE = ("d", "t")


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Connect a client to a server with a limit of two partitions, with a table of three."""
    directory = tmp_path_factory.mktemp("limited")
    site = directory / "hive-site.xml"
    site.write_text(
        "<configuration><property><name>hive.metastore.limit.partition.request</name><value>2</value></property>"
        "</configuration>"
    )
    db = f"sqlite:///{directory / 'metastore.db'}"
    with (
        metastore_under_test(db, directory, "--hive-site", str(site)) as running,
        plain_client(running.port) as client,
    ):
        client.create_database(ttypes.Database(name="d"))
        client.create_table(table(*TABLE, ("id", "int"), partition_keys=(("a", "int"), ("b", "int"))))
        for values in (["1", "1"], ["1", "2"], ["2", "1"]):
            client.append_partition(*TABLE, values)
        yield client


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, limit: client.get_partitions(*TABLE, limit),
        lambda client, limit: client.get_partitions_with_auth(*TABLE, limit, "u", []),
        lambda client, limit: client.get_partitions_pspec(*TABLE, limit),
        lambda client, limit: client.get_partitions_ps(*TABLE, ["", ""], limit),
        lambda client, limit: client.get_partitions_by_filter(*TABLE, "", limit),
        lambda client, limit: client.get_part_specs_by_filter(*TABLE, "a > 0", limit),
    ],
)
def test_a_request_for_more_partitions_needs_a_lower_limit_of_its_own(
    limited: Any, ask: Callable[[Any, int], Any]
) -> None:
    for limit in (-1, 3):
        with pytest.raises(ttypes.MetaException) as refused:
            ask(limited, limit)
        assert refused.value.message == (
            "Number of partitions scanned (=3) on table 't' exceeds limit (=2). This is controlled on the metastore "
            "server by metastore.limit.partition.request."
        )
    assert ask(limited, 2)


def test_partitions_requested_by_name_are_counted(limited: Any) -> None:
    names = limited.get_partition_names(*TABLE, -1)
    assert len(names) == 3, "names alone are not limited"
    assert len(limited.get_partitions_by_names(*TABLE, names[:2])) == 2
    with pytest.raises(ttypes.MetaException, match="exceeds limit"):
        limited.get_partitions_by_names(*TABLE, names)


def test_a_selection_within_the_limit_is_answered(limited: Any) -> None:
    assert len(limited.get_partitions_by_filter(*TABLE, "a = 1", -1)) == 2
    assert len(limited.get_partitions_ps(*TABLE, ["1", ""], -1)) == 2


def test_clients_can_read_the_limit(limited: Any) -> None:
    assert limited.get_config_value("metastore.limit.partition.request", "") == "2"
