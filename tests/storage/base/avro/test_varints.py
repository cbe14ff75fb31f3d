"""Avro's variable-length integers, encoded in bulk, equal those of fastavro."""

import io

import fastavro
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.avro.decode import PADDING, varints, words_of

_BOUNDS = [sign * 2**bits + off for bits in range(63) for sign in (1, -1) for off in (-1, 0, 1)]
_INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([*_BOUNDS, 2**63 - 1, -(2**63)])


@given(st.lists(_INTEGERS, max_size=20))
def test_integers_survive_the_round_trip_with_their_sizes(numbers: list[int]) -> None:
    texts = []
    for number in numbers:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema("long"), number)
        texts.append(out.getvalue())
    lengths = np.array([len(text) for text in texts], np.int64)
    data = np.frombuffer(b"".join(texts) + bytes(PADDING), np.uint8)
    values, sizes = varints(data, words_of(data), np.cumsum(lengths) - lengths)
    assert values.tolist() == numbers
    assert sizes.tolist() == lengths.tolist()
