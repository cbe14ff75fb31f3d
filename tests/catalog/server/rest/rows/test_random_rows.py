"""The rows of a stream are those of interbed's reader under the same policies, in this process, for random queries."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.rest.mounted import guarded_own
from interbed.catalog.server.rest.own_interface import own_interface
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.rows.routes import RowRoutes
from interbed.catalog.server.rest.rows.streams import RowStreams
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.json import to_json
from tests.catalog.client.rest.test_guarded_tables import ROWS, _guarded, _opened
from tests.catalog.server.access.guarded import OWNER, READER
from tests.catalog.server.access.policed import PolicedMetastore, policed_metastore

TEXTS = ("Bonn", "Köln", "Ulm", "33", "*Bonn", "%", "")
NAMES = ("id", "city", "phone")

conditions = st.recursive(
    st.one_of(
        st.builds("id {} {}".format, st.sampled_from(["=", "<>", "<", ">="]), st.integers(0, 7)),
        st.builds(
            "{} {} '{}'".format,
            st.sampled_from(["city", "phone"]),
            st.sampled_from(["=", "<>", "<"]),
            st.sampled_from(TEXTS),
        ),
        st.builds("{} IS {}NULL".format, st.sampled_from(NAMES), st.sampled_from(["", "NOT "])),
        st.builds("{} LIKE '{}%'".format, st.sampled_from(["city", "phone"]), st.sampled_from(TEXTS)),
    ),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner),
    max_leaves=4,
)
masks = st.sampled_from(["NULL", "'***'", "city", "CONCAT('*', city)", "UPPER(city)", "LOWER(phone)"])


@pytest.fixture(scope="module", params=[False, True], ids=["append", "keyed"])
def policed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicedMetastore]:
    """Return a metastore whose table `lake` has rows, and the interface of rows."""
    root: Path = tmp_path_factory.mktemp("random")
    with policed_metastore(root, keyed=request.param, options={"bucket": "1"} if request.param else {}) as made:
        table = _opened(made, OWNER)
        for part in (ROWS.slice(0, 3), ROWS.slice(3)):
            table.upsert(part) if request.param else table.append(part)
        metastore = made.guarded.metastore
        access = CatalogAccess(metastore, dispatcher_for(metastore))
        own = own_interface(metastore, rows=RowRoutes(metastore, lambda: access, RowStreams()))
        made.interfaces = {**made.interfaces, "interbed": guarded_own(metastore, own)}
        yield made


def _streamed(policed: PolicedMetastore, body: Any) -> pa.Table:
    response = policed.answer(READER, "POST", "v1/hive/databases/sales/tables/lake/rows", body, interface="interbed")
    stream = response.stream
    assert stream is not None

    async def read() -> bytes:
        parts = []
        try:
            while (part := await stream.next_part()) is not None:
                parts.append(part)
        finally:
            stream.close()
        return b"".join(parts)

    return pa.ipc.open_stream(asyncio.run(read())).read_all()


def _sorted(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    filters=st.lists(conditions.filter(lambda text: "LIKE '%" not in text), max_size=2),
    mask=st.none() | masks,
    columns=st.none() | st.lists(st.sampled_from(NAMES), unique=True),
    condition=st.none() | conditions,
    is_json=st.booleans(),
)
def test_a_stream_has_the_rows_of_the_guarded_reader(
    policed: PolicedMetastore,
    filters: list[str],
    mask: str | None,
    columns: list[str] | None,
    condition: str | None,
    is_json: bool,
) -> None:
    with policed.only_policies():
        for number, each in enumerate(filters):
            policed.set_filter(each, name=f"rows-{number}")
        if mask is not None:
            policed.set_mask("phone", mask)
        # Without policies the table is not guarded.
        policed.set_filter("id IS NOT NULL", name="always")
        table = _guarded(policed)
        body: dict[str, Any] = {} if columns is None else {"columns": columns}
        if condition is not None:
            predicate = bound_filter(condition, table.schema.fields)
            body["filter"] = json.loads(to_json(predicate)) if is_json else condition
        found = _streamed(policed, body)
        expected = table.scan(columns, condition).to_arrow()
    assert found.schema == expected.schema
    assert _sorted(found) == _sorted(expected)
    assert found.num_rows == expected.num_rows


def test_the_error_of_a_policy_names_no_values(policed: PolicedMetastore) -> None:
    with policed.only_policies():
        policed.set_filter("id > 2")
        policed.set_mask("phone", "NULL")
        with pytest.raises(RestError) as refused:
            _streamed(policed, {"filter": "id = 'secret-66'"})
    assert refused.value.status == 400
