"""Types and values of the golden files: for each type ordinary, extreme and unusual values.

Types and values are in the JSON of tests/support/peers/json.py.
"""

import base64
from typing import Any

from tests.support.peers.json import TypeJson


def b64(data: bytes) -> str:
    """Return bytes in the encoding of the golden files."""
    return base64.b64encode(data).decode()


# 2024-02-29 12:34:56.123456789 and instants around the epoch, in nanoseconds.
LEAP = 1_709_210_096_123_456_789
SECOND = 1_000_000_000

NESTED_ROW: TypeJson = {
    "type": "ROW",
    "fields": [
        {"id": 0, "name": "a", "type": "INT"},
        {"id": 1, "name": "b", "type": {"type": "ARRAY", "element": "DECIMAL(20, 3)"}},
        {"id": 2, "name": "c", "type": "STRING"},
    ],
}


def _timestamps(digits: int) -> list[int]:
    step = 10 ** (9 - digits)
    return [value // step * step for value in (0, -1, LEAP, -LEAP, 1, 999_999_999, -6_857_222_400 * SECOND)]


SCALARS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [0, 1, -1, 127, -128],
    "SMALLINT": [0, 1, -1, 32767, -32768],
    "INT": [0, 1, -1, 42, 2**31 - 1, -(2**31)],
    "BIGINT": [0, 1, -1, 2**40, 2**63 - 1, -(2**63)],
    "FLOAT": ["0.0", "-0.0", "1.5", "-1.100000023841858", "NaN", "Infinity", "-Infinity", "1.401298464324817e-45"],
    "DOUBLE": ["0.0", "-0.0", "0.1", "-2.5e+300", "NaN", "Infinity", "-Infinity", "5e-324"],
    "DECIMAL(1, 0)": ["0", "9", "-9"],
    "DECIMAL(9, 2)": ["0.00", "1.00", "-1.00", "9999999.99", "-9999999.99"],
    "DECIMAL(18, 4)": ["0.0000", "12345678901234.5678", "-0.0001"],
    "DECIMAL(19, 0)": ["0", "1", "-1", "9223372036854775808", "-9999999999999999999"],
    "DECIMAL(38, 10)": [
        "0.0000000000",
        "0.0000000001",
        "-1.0000000000",
        "9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999.9999999999",
    ],
    "CHAR(5)": ["abcde", "äöüßé"],
    "VARCHAR(20)": ["", "a", "seven77", "eight888", "longer than eight"],
    "STRING": ["", "a", "seven77", "eight888", "sixteen letters!", "日本語のテキスト", "🦆" * 3, "x" * 100, "\u0000z"],
    "BINARY(4)": [b64(b"\x00\x01\x02\x03"), b64(b"\xff\xfe\xfd\xfc")],
    "VARBINARY(10)": [b64(b""), b64(b"\x00"), b64(b"1234567"), b64(b"12345678"), b64(b"\xff" * 10)],
    "BYTES": [b64(b""), b64(b"\x80"), b64(bytes(range(64)))],
    "DATE": [0, 1, -1, 19782, 2932896, -719162],
    "TIME(0)": [0, 1000, 86_399_000],
    "TIME(3)": [0, 1, 45_296_123, 86_399_999],
    "TIMESTAMP(0)": _timestamps(0),
    "TIMESTAMP(3)": _timestamps(3),
    "TIMESTAMP(6)": _timestamps(6),
    "TIMESTAMP(9)": _timestamps(9),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": _timestamps(3),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": _timestamps(6),
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": _timestamps(9),
}

NESTED: list[tuple[TypeJson, list[Any]]] = [
    ({"type": "ARRAY", "element": "INT"}, [[], [1], [1, None, -3], list(range(40))]),
    ({"type": "ARRAY", "element": "BOOLEAN"}, [[True, None, False]]),
    ({"type": "ARRAY", "element": "TINYINT"}, [[1, None, -3]]),
    ({"type": "ARRAY", "element": "DOUBLE"}, [["NaN", "-0.0", None]]),
    ({"type": "ARRAY", "element": "STRING"}, [["", None, "a", "longer than seven"]]),
    ({"type": "ARRAY", "element": "TIMESTAMP(9)"}, [[LEAP, None, -1]]),
    ({"type": "ARRAY", "element": "DECIMAL(38, 10)"}, [["1.0000000000", None]]),
    (
        {"type": "ARRAY", "element": {"type": "ARRAY", "element": "STRING"}},
        [[], [[]], [["a", None], None, ["b"]]],
    ),
    ({"type": "MAP", "key": "STRING", "value": "INT"}, [[], [["k", 1]], [["a", None], ["longer key", 2]]]),
    ({"type": "MAP", "key": "INT", "value": NESTED_ROW}, [[[7, [1, ["1.000", None], "c"]], [8, None]]]),
    ({"type": "MULTISET", "element": "STRING"}, [[], [["a", 1], ["b", 3]]]),
    (NESTED_ROW, [[1, ["0.001", "-99999999999999999.999"], "text"], [None, None, None], [2, [], ""]]),
    (
        {"type": "ROW", "fields": [{"id": 0, "name": "in", "type": NESTED_ROW}]},
        [[[1, ["1.000"], "deep"]], [None]],
    ),
]

COMPOSITES: list[tuple[list[TypeJson], list[list[Any]]]] = [
    (["INT", "INT"], [[1, 2], [2, 1], [None, 1], [1, None], [None, None]]),
    (["STRING", "BIGINT"], [["a", 1], ["longer than seven", -1], [None, 2**63 - 1]]),
    (["STRING", "STRING", "STRING"], [["", "seven77", "eight888"], ["x" * 20, None, "y" * 9]]),
    (["INT", "DECIMAL(38, 10)", "STRING"], [[1, "1.5000000000", "s"], [1, None, "longer than seven"]]),
    (["TIMESTAMP(9)", "BYTES", "DATE"], [[LEAP, b64(b"123456789"), 19782], [None, b64(b"1"), None]]),
    (["TIMESTAMP(3)", "DECIMAL(9, 2)", "DOUBLE", "FLOAT"], [[1000000, "1.10", "0.1", "0.5"], [None] * 4]),
    # More fields than the null bits of the first word can represent (56).
    (["TINYINT"] * 60, [list(range(60)), [None] * 60, [i if i % 7 else None for i in range(60)]]),
]
