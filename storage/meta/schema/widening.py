"""Which types hold every value of another."""

from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataType,
    TypeRoot,
)

_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether every value of the old atomic type has the same value in the new one."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return old.with_nullable(True) == new.with_nullable(True)
    if old.root in INTEGERS:
        digits = _INTEGER_DIGITS[old.root]
        if new.root in INTEGERS:
            return _INTEGER_DIGITS[new.root] >= digits
        if new.root is TypeRoot.DECIMAL:
            return (new.precision or 0) - (new.scale or 0) >= digits
        return new.root is TypeRoot.DOUBLE and digits <= 10
    if old.root in STRINGS:
        return new.root is TypeRoot.VARCHAR and (new.length or 0) >= (old.length or 0)
    if old.root in BINARIES:
        return new.root is TypeRoot.VARBINARY and (new.length or 0) >= (old.length or 0)
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        old_scale, new_scale = old.scale or 0, new.scale or 0
        return new_scale >= old_scale and (new.precision or 0) - new_scale >= (old.precision or 0) - old_scale
    if old.root is TypeRoot.FLOAT:
        return new.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
    if old.root in TIMESTAMPS:
        return new.root is old.root and (new.precision or 0) >= (old.precision or 0)
    if old.root is TypeRoot.TIME:
        # Paimon has no cast between TIMEs.
        return new.root is old.root and new.precision == old.precision
    return old.root is new.root
