"""Numbers made DECIMALs exactly: Arrow's own casts wrap around where a number has no room for the digits of its scale.

Arrow 23 makes 518445349204035176694863500022054643.44 of the `decimal128(38, 0)` 3921269018413419811328609574339736758,
and of its text, in a `decimal128(38, 2)`: it does not look whether the product has more than 128 bits.
"""

from typing import Any

import pyarrow as pa

_DIGITS = 76
_TOLERANCE = 1e-9
"""Relative difference of two doubles that stand for one number; a number that was wrapped around is far away."""


def cast_exactly(array: "pa.Array[Any]", target: pa.DataType) -> "pa.Array[Any]":
    """The array in another type by Arrow's safe cast; texts and decimals become decimals by `exact_decimals`."""
    kind = array.type
    is_exact = pa.types.is_decimal(target) and (pa.types.is_decimal(kind) or pa.types.is_string(kind))
    return exact_decimals(array, target) if is_exact else array.cast(target)


def exact_decimals(array: "pa.Array[Any]", target: pa.DataType) -> "pa.Array[Any]":
    """Texts or decimals in a decimal type; raises pa.ArrowInvalid for a number that the type does not hold."""
    kind: Any = target
    wide = array.cast(pa.decimal256(_DIGITS, kind.scale), safe=True)
    # Texts and decimals of up to 76 digits may have no room in 256 bits, either.
    if not isinstance(array.type, pa.Decimal128Type | pa.Decimal64Type | pa.Decimal32Type):
        # Reading needs types of Arrow, and none of its functions.
        import pyarrow.compute as pc

        given: Any = array.cast(pa.float64(), safe=False)
        difference: Any = pc.abs(pc.subtract(given, wide.cast(pa.float64(), safe=False)))
        if pc.any(pc.greater(difference, pc.multiply(pc.abs(given), pa.scalar(_TOLERANCE)))).as_py():
            raise pa.ArrowInvalid(f"a number has more digits than {target} holds")
    return wide.cast(target, safe=True)
