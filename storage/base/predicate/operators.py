"""The comparisons of filters."""

from enum import StrEnum


class Op(StrEnum):
    """A comparison; the value is its name in JSON."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"

    @property
    def symbol(self) -> str:
        """The comparison as SQL writes it."""
        return _SYMBOLS[self]

    @property
    def negated(self) -> "Op":
        """The comparison that is true where this one is false."""
        return _NEGATED[self]


_SYMBOLS = {Op.EQ: "=", Op.NE: "<>", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}
_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
