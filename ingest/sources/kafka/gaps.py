"""Gaps: messages of a topic that were to be read and are not there, so that nobody will ever read them."""

from interbed.ingest.errors import SourceGapError
from interbed.ingest.sources.kafka.messages import Partition

_WAY_OUT = (
    "Fill the table anew from where the messages come from and start at new positions; or accept that these messages "
    "are lost, and start at the earliest that is there."
)


def check_no_gap(servers: str, place: Partition, wanted: int, low: int, high: int) -> None:
    """Raises SourceGapError when the offset that is wanted next is before the lowest, or beyond the end."""
    if wanted < low:
        raise SourceGapError(
            f"Messages of topic {place[0]}, partition {place[1]} are gone from Kafka at {servers} before they "
            f"were read: offset {wanted} was to be read next, and the earliest is {low}. {_WAY_OUT}"
        )
    if wanted > high:
        raise made_anew(servers, place, wanted, f"it ends at offset {high}, and the earliest is {low}")


def made_anew(servers: str, place: Partition, wanted: int, why: str) -> SourceGapError:
    """The error of a partition that is not the one that was read."""
    return SourceGapError(
        f"Topic {place[0]}, partition {place[1]} in Kafka at {servers} is not the one that was read: offset "
        f"{wanted} was to be read next, but {why}. The topic was made anew, or lost messages. {_WAY_OUT}"
    )
