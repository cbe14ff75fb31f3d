"""The keys that an eventual log has returned since the last snapshot, against a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.log.written import TouchedKeys, WrittenBy, WrittenRow

KEYS = st.integers(0, 30).map(lambda n: b'{"id":%d}' % n)
BY = WrittenBy(table=1, schema_id=0)


@given(
    rows=st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3), st.integers(0, 2)), max_size=60),
    changed=st.sets(KEYS),
    offsets=st.dictionaries(st.integers(0, 2), st.integers(0, 60)),
    at_once=st.integers(1, 7),
)
def test_keys_are_checked_by_the_offset_of_their_last_record(
    rows: list[tuple[bytes, bytes | None, int]],
    changed: set[bytes],
    offsets: dict[int, int],
    at_once: int,
) -> None:
    touched = TouchedKeys()
    model: dict[bytes, WrittenRow] = {}
    # A key is always in the same partition.
    homes: dict[bytes, int] = {}
    for offset, (key, value, partition) in enumerate(rows):
        row = WrittenRow(key, value, BY, homes.setdefault(key, partition), offset)
        model[key] = row
        touched.put([row])
    assert touched.find(sorted({*model, *changed})) == {key: row.value for key, row in model.items()}
    touched.judge(changed)
    touched.judge_before(offsets)
    later = {key for key, row in model.items() if row.offset >= offsets.get(row.partition, 0)}
    pages = list(touched.judged(at_once))
    keys = [key for page, _ in pages for key in page]
    assert keys == sorted((changed | model.keys()) - later)
    assert all(len(page) <= at_once for page, _ in pages)
    assert {k: v for _, rest in pages for k, v in rest.items()} == {k: model[k].value for k in keys if k in model}
    touched.settle()
    assert len(touched) == len(later)
    assert list(touched.judged(at_once)) == []
    touched.close()
