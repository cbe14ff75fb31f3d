"""What interbed does with an option of Paimon: it honours it, needs nothing to be done for it, or refuses it."""

from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """What becomes of an option that interbed knows."""

    HONOURED = "honoured"
    HARMLESS = "harmless"
    REFUSED = "refused"


class Blocks(StrEnum):
    """What a table made elsewhere can't be used for here because of an option that is refused for new tables.

    `READING` also blocks writing. `NOTHING` is for options that only other engines miss: they are logged.
    """

    READING = "reading"
    WRITING = "writing"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOption:
    """An option by its key; `<…>` in the key stands for any text.

    `why` says why the option is harmless, or what the refused one would need. `takes` are the values, in lower case,
    that a refused option may have, because they are Paimon's default or what interbed does anyway; empty text is one.
    """

    key: str
    standing: Standing
    why: str = ""
    way_out: str = ""
    takes: tuple[str, ...] = ()
    blocks: Blocks = Blocks.NOTHING

    def refuses(self, value: str) -> bool:
        """Whether this value of the option is refused."""
        return self.standing is Standing.REFUSED and value.strip().lower() not in ("", *self.takes)
