"""Messages with a duplicate name in one object are bad, because it is ambiguous which value applies."""

from collections.abc import Callable, Mapping

import pytest

from interbed.ingest.formats.canal_json import CanalJson
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.ingest.formats.format import Decoder, PlainJson
from interbed.ingest.formats.maxwell_json import MaxwellJson
from interbed.storage.base.row.kind import RowKind
from tests.ingest.formats.test_debezium_json import payload, with_schema
from tests.ingest.memory_source import encoded, messages_of

ROWS = ('{"id":1,"v":2,"v":3}', '{"id":1,"v":null,"v":3}', '{"id":1,"v":3,"\\u0076":3}', '{"id":1,"o":{"v":1,"v":2}}')
GOOD = '{"id":1,"v":2}'
_SOURCE = '"source":{"db":"shop","schema":"public","table":"orders"}'
WRITE: Mapping[str, tuple[Callable[[], Decoder], str]] = {
    "json": (PlainJson, "%s"),
    "maxwell-json": (MaxwellJson, '{"database":"shop","table":"orders","type":"insert","data":%s}'),
    "maxwell-json, old": (
        MaxwellJson,
        '{"database":"shop","table":"orders","type":"update","data":{"id":1,"v":1,"o":null},"old":%s}',
    ),
    "canal-json": (
        CanalJson,
        '{"database":"shop","table":"orders","type":"INSERT","mysqlType":{"id":"bigint"},"data":[%s]}',
    ),
    "debezium-json": (DebeziumJson, f'{{"before":null,"after":%s,{_SOURCE},"op":"c"}}'),
    "debezium-json, before": (DebeziumJson, f'{{"before":%s,"after":{{"id":1,"v":2}},{_SOURCE},"op":"u"}}'),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("form", WRITE)
def test_a_message_with_a_duplicate_name_is_bad(form: str, row: str) -> None:
    make, pattern = WRITE[form]
    decoder: Decoder = make()
    texts = [(pattern % each).encode() for each in (GOOD, row, GOOD)]
    for _ in range(2):
        # The second time the decoder knows all fields.
        decoded = decoder.decode(messages_of(texts))
        assert [each.index for each in decoded.bad] == [1]
        assert "twice" in decoded.bad[0].reason
        rows = [number for each in decoded.changes for number in each.messages.tolist()]
        assert set(rows) == {0, 2}


def test_a_message_with_a_schema_and_a_duplicate_name_is_bad() -> None:
    good = encoded(
        with_schema(
            payload("c", None, {"id": 1, "v": "a"}),
            [{"type": "int64", "optional": True, "field": "id"}, {"type": "string", "optional": True, "field": "v"}],
        )
    )
    assert good is not None
    twice = good.replace(b'"v":"a"', b'"v":"a","v":"b"')
    assert twice != good
    decoded = DebeziumJson().decode(messages_of([good, twice]))
    assert [each.index for each in decoded.bad] == [1]


def test_a_tombstone_whose_key_has_a_duplicate_name_is_bad() -> None:
    decoded = PlainJson().decode(messages_of([b'{"id":1}', None], [None, b'{"id":1,"id":2}']))
    assert [each.index for each in decoded.bad] == [1]
    assert [each.kinds.tolist() for each in decoded.changes] == [[RowKind.INSERT]]
