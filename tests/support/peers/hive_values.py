"""Conversion of Hive's text values to the JSON of `tests.support.peers.json`, in which rows are compared."""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

import interbed
from tests.support.peers.hive import HiveRows
from tests.support.peers.interbed import InterbedTable
from tests.support.peers.json import PeerType, comparable, float_text

_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_BARE_KEY = re.compile(r"([{,])(-?\d+):")


@dataclass(frozen=True, slots=True)
class MetastoreTable(InterbedTable):
    """Table of a catalog that stays open; `warehouse` is the location of the catalog."""

    catalog: interbed.Catalog

    def _catalog(self) -> Any:
        return nullcontext(self.catalog)


def metastore_table(catalog: interbed.Catalog, name: str) -> MetastoreTable:
    """Return the table `database.table` of an open catalog, without a look-up."""
    return MetastoreTable(catalog.warehouse, name, catalog)


def hive_comparable(found: HiveRows, types: Sequence[PeerType]) -> list[list[Any]]:
    """Return the rows of a SELECT in the form and order of `comparable`."""
    return comparable(hive_rows(found.rows, types), types)


def hive_rows(rows: Iterable[Sequence[str | None]], types: Sequence[PeerType]) -> list[list[Any]]:
    """Return rows of JDBC, in order, as rows of JSON."""
    return [[hive_value(text, of) for text, of in zip(row, types, strict=True)] for row in rows]


def hive_value(text: str | None, of: PeerType) -> Any:
    """Return a value of JDBC as JSON."""
    if text is None:
        return None
    if of.root in ("ARRAY", "MAP", "ROW"):
        # Hive writes the keys of a map without quotes when they are numbers.
        quoted = _BARE_KEY.sub(r'\1"\2":', text)
        return _nested(json.loads(quoted, parse_int=str, parse_float=str, parse_constant=str), of)
    return _atom(text, of)


def _nested(value: Any, of: PeerType) -> Any:
    if value is None:
        return None
    match of.root:
        case "ARRAY":
            return [_nested(element, of.children[0]) for element in value]
        case "MAP":
            key, item = of.children
            return [[_nested(k, key), _nested(v, item)] for k, v in value.items()]
        case "ROW":
            return [_nested(value[name], child) for name, child in zip(of.names, of.children, strict=True)]
        case "BOOLEAN":
            return value
        case _:
            return _atom(value, of)


def _atom(text: str, of: PeerType) -> Any:
    match of.root:
        case "BOOLEAN":
            return text == "true"
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return int(text)
        case "FLOAT":
            return float_text(float(np.float32(text)))
        case "DOUBLE":
            return float_text(float(text))
        case "DATE":
            return (date.fromisoformat(text) - _EPOCH).days
        case "TIME":
            hours, minutes, *seconds = text.split(":")
            whole, _, fraction = (seconds[0] if seconds else "0").partition(".")
            return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1000 + int(fraction.ljust(3, "0")[:3] or 0)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            whole, _, fraction = text.removesuffix(" UTC").partition(".")
            instant = datetime.fromisoformat(whole).replace(tzinfo=UTC)
            return (instant - _EPOCH_TIME) // timedelta(seconds=1) * 1_000_000_000 + int(fraction.ljust(9, "0"))
        case _:
            return text
