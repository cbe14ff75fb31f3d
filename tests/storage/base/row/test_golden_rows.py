"""BinaryRow, its hash and its buckets against golden files that Java Paimon wrote for the same rows."""

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.row.binary_row import decode_row, decode_rows, encode_row, encode_rows
from interbed.storage.base.row.words import murmur_hash, murmur_hash_bytes
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import AtomicType, DataType, type_from_json
from interbed.storage.meta.bucket_function import BucketFunction, assign_buckets
from tests.golden.load import BucketCase, CodecCase, bucket_cases, codec_cases
from tests.support.peers.json import from_json_values, normalised, parse_type, to_json_values


def _types(case: CodecCase | BucketCase) -> list[DataType]:
    return [type_from_json(t) for t in case.types]


def _columns(case: CodecCase | BucketCase) -> "list[pa.Array[Any]]":
    return [
        from_json_values([row[i] for row in case.rows], parse_type(t)).cast(type_to_arrow(type_from_json(t)))
        for i, t in enumerate(case.types)
    ]


def _comparable(case: CodecCase, columns: "list[pa.Array[Any]]") -> list[list[Any]]:
    types = [parse_type(t) for t in case.types]
    values = [to_json_values(c, t) for c, t in zip(columns, types, strict=True)]
    return [[normalised(v, t) for v, t in zip(row, types, strict=True)] for row in zip(*values, strict=True)]


def _name(case: CodecCase | BucketCase) -> str:
    return "+".join(map(str, case.types[:5]))


# Rows of nested types are not in keys, partitions or statistics.
CASES = [c for c in codec_cases() if all(isinstance(t, AtomicType) for t in _types(c))]
BUCKETS = [c for c in bucket_cases() if all(isinstance(t, AtomicType) for t in _types(c))]


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_columns_are_encoded_to_the_bytes_that_java_writes(case: CodecCase) -> None:
    arity = len(case.types).to_bytes(4, "big")
    expected = [arity + base64.b64decode(b) for b in case.bytes_base64]
    assert encode_rows(_columns(case), _types(case)) == expected


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_bytes_of_java_are_decoded_to_the_same_columns(case: CodecCase) -> None:
    arity = len(case.types).to_bytes(4, "big")
    rows = [arity + base64.b64decode(b) for b in case.bytes_base64]
    types = [parse_type(t) for t in case.types]
    expected = [[normalised(v, t) for v, t in zip(row, types, strict=True)] for row in case.rows]
    assert _comparable(case, decode_rows(rows, _types(case))) == expected


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_values_decoded_from_a_row_of_java_encode_to_its_bytes(case: CodecCase) -> None:
    arity = len(case.types).to_bytes(4, "big")
    for text in case.bytes_base64:
        row = arity + base64.b64decode(text)
        assert encode_row(decode_row(row, _types(case)), _types(case)) == row


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_the_hash_equals_javas(case: CodecCase) -> None:
    assert murmur_hash(_columns(case), _types(case)).tolist() == case.hashes
    assert [murmur_hash_bytes(base64.b64decode(b)) for b in case.bytes_base64] == case.hashes


@pytest.mark.parametrize("case", BUCKETS, ids=_name)
def test_rows_get_the_same_buckets_as_in_java(case: BucketCase) -> None:
    for position, count in enumerate(case.num_buckets):
        found = assign_buckets(_columns(case), _types(case), count)
        assert found.dtype == np.int32
        assert found.tolist() == [row[position] for row in case.buckets]


@pytest.mark.parametrize("case", bucket_cases("mod"), ids=_name)
def test_the_modulo_bucket_function_gives_the_same_buckets_as_in_java(case: BucketCase) -> None:
    for position, count in enumerate(case.num_buckets):
        found = assign_buckets(_columns(case), _types(case), count, BucketFunction.MOD)
        assert found.tolist() == [row[position] for row in case.buckets]


def test_bucket_functions_refuse_unsupported_arguments() -> None:
    text, number = type_from_json("STRING"), type_from_json("INT")
    with pytest.raises(InvalidOptionError, match="one bucket key of type INT or BIGINT"):
        assign_buckets([pa.array(["a"])], [text], 2, BucketFunction.MOD)
    with pytest.raises(NotSupportedError, match="hive"):
        assign_buckets([pa.array([1], pa.int32())], [number], 2, BucketFunction.HIVE)
    with pytest.raises(InvalidInputError, match="0 buckets"):
        assign_buckets([pa.array([1], pa.int32())], [number], 0)
    with pytest.raises(InvalidInputError, match="at least one column"):
        assign_buckets([], [], 2)
