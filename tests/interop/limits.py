"""Types and values that each peer supports: tests stay within them, and README.md describes the behaviour beyond."""

from typing import Literal

from tests.golden.values import NESTED, SCALARS
from tests.support.peers.json import PeerType, TypeJson, parse_type

# interbed itself is to support all of them.
Peer = Literal["interbed", "java", "python", "rust"]
PEERS: tuple[Peer, ...] = ("java", "python", "rust")


def _any(of: PeerType, *roots: str) -> bool:
    return of.root in roots or any(_any(child, *roots) for child in of.children)


def _nanosecond_timestamp(of: PeerType) -> bool:
    return of.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and of.arguments[0] > 6


def _contains_nanoseconds(of: PeerType) -> bool:
    return _nanosecond_timestamp(of) or any(_contains_nanoseconds(child) for child in of.children)


def _null_row_of_not_null(of: PeerType) -> bool:
    if of.root == "ROW" and of.nullable and not all(child.nullable for child in of.children):
        return True
    return any(_null_row_of_not_null(child) for child in of.children)


def _multiset_of(of: PeerType, *roots: str) -> bool:
    if of.root == "MULTISET" and of.children[0].root in roots:
        return True
    return any(_multiset_of(child, *roots) for child in of.children)


def holds_value(peer: Peer, type_json: TypeJson) -> bool:
    """Return whether the peer writes and reads values of the type."""
    of = parse_type(type_json)
    if peer == "interbed":
        return True
    if peer == "java":
        return not _multiset_of(of, "DECIMAL", "TIMESTAMP", "TIMESTAMP_LTZ")
    if peer == "python" and _null_row_of_not_null(of):
        return False
    return not _any(of, "MULTISET") and not _contains_nanoseconds(of)


def holds_key(peer: Peer, type_json: TypeJson) -> bool:
    """Return whether the peer distinguishes all keys of the type and puts each into the right bucket."""
    return holds_value(peer, type_json) and (peer != "python" or parse_type(type_json).root not in ("FLOAT", "DOUBLE"))


def holds_partition(peer: Peer, type_json: TypeJson) -> bool:
    """Return whether the peer writes and reads partitions of the type with `partition.legacy-name` = true."""
    of = parse_type(type_json)
    if of.root in ("BINARY", "VARBINARY"):
        return False
    if peer in ("interbed", "java"):
        return True
    return of.root not in ("FLOAT", "DOUBLE") and not _nanosecond_timestamp(of)


def values_held_by(*peers: Peer) -> list[tuple[TypeJson, list[object]]]:
    """Return the golden types and values that all of these peers support."""
    everything: list[tuple[TypeJson, list[object]]] = [*SCALARS.items(), *NESTED]
    return [(of, values) for of, values in everything if all(holds_value(peer, of) for peer in peers)]
