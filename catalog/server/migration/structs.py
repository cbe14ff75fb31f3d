"""Thrift's structures as JSON, for files and for comparing: an object with the field names of Hive's interface.

Fields that are not set are left out. A map with string keys is an object, any other map a list of pairs. Bytes are
base64, a number that JSON lacks (nan, inf) is a string.
"""

import base64
import math
from collections.abc import Mapping
from typing import Any

from thrift.Thrift import TType

_COMPOSED = frozenset((TType.STRUCT, TType.LIST, TType.SET, TType.MAP))


def to_json(struct: Any, *, empty: bool = True) -> dict[str, Any]:
    """The set fields of a structure; without those that hold nothing, at any depth, unless `empty`."""
    fields = {}
    # A loop over fields, for each of them is of another kind.
    for spec in struct.thrift_spec:
        if spec is None:
            continue
        _, kind, name, about, _ = spec
        value = getattr(struct, name)
        if value is None:
            continue
        if kind == TType.STRING:
            fields[name] = value if isinstance(value, str) else base64.b64encode(value).decode("ascii")
        elif kind in _COMPOSED:
            composed = _composed_to_json(kind, about, value, empty)
            if empty or composed:
                fields[name] = composed
        elif kind == TType.DOUBLE and not math.isfinite(value):
            fields[name] = repr(float(value))
        else:
            fields[name] = value
    return fields


def from_json(structure: Any, fields: Mapping[str, Any]) -> Any:
    """A structure of this class. ValueError for a field that the class does not have, or a value of another shape."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"{structure.__name__} has to be an object, not {type(fields).__name__}")
    specs = {spec[2]: spec for spec in structure.thrift_spec if spec is not None}
    unknown = fields.keys() - specs.keys()
    if unknown:
        raise ValueError(f"{structure.__name__} has no field {sorted(unknown)[0]!r}")
    return structure(**{name: _value_from_json(specs[name], value) for name, value in fields.items()})


def _composed_to_json(kind: int, about: Any, value: Any, empty: bool) -> Any:
    if kind == TType.STRUCT:
        return to_json(value, empty=empty)
    if kind in (TType.LIST, TType.SET):
        if about[0] == TType.STRUCT:
            return [to_json(item, empty=empty) for item in value]
        items = [_value_to_json(about[0], about[1], item, empty) for item in value]
        return items if kind == TType.LIST else sorted(items)
    pairs = [(key, _value_to_json(about[2], about[3], item, empty)) for key, item in value.items()]
    if about[0] == TType.STRING:
        return dict(sorted(pairs))
    return sorted([_value_to_json(about[0], about[1], key, empty), item] for key, item in pairs)


def _value_to_json(kind: int, about: Any, value: Any, empty: bool) -> Any:
    if kind in _COMPOSED:
        return _composed_to_json(kind, about, value, empty)
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _value_from_json(spec: Any, value: Any) -> Any:
    return _from_json(spec[1], spec[3], value, spec[2])


def _from_json(kind: int, about: Any, value: Any, name: str) -> Any:
    if kind == TType.STRUCT:
        return from_json(about[0], value)
    if kind in (TType.LIST, TType.SET):
        if not isinstance(value, list):
            raise ValueError(f"{name} has to be a list, not {type(value).__name__}")
        items = [_from_json(about[0], about[1], item, name) for item in value]
        return items if kind == TType.LIST else set(items)
    if kind == TType.MAP:
        pairs = value.items() if isinstance(value, Mapping) else value
        return {
            _hashable(_from_json(about[0], about[1], key, name)): _from_json(about[2], about[3], item, name)
            for key, item in pairs
        }
    if kind == TType.STRING:
        if not isinstance(value, str):
            raise ValueError(f"{name} has to be a string, not {type(value).__name__}")
        return base64.b64decode(value, validate=True) if about == "BINARY" else value
    if kind == TType.DOUBLE:
        return float(value)
    if isinstance(value, bool) != (kind == TType.BOOL) or not isinstance(value, int):
        raise ValueError(f"{name} has to be {'true or false' if kind == TType.BOOL else 'a whole number'}")
    return value


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key
