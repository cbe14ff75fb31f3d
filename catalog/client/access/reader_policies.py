"""Row filters and column masks that a Hive metastore of interbed's gives to the readers that they bind.

They are a parameter of the table in the answer to its reader. Other clients of Hive's interface ignore it, as they
ignore all parameters that they do not know.
"""

import json
from collections.abc import Mapping, Sequence

from interbed.storage.base.errors import CorruptFileError, FilterError, NotSupportedError
from interbed.storage.base.types.data_type import DataField
from interbed.storage.read.guarded_scan import RowRules

READER_POLICIES = "interbed.reader-policies"
"""The parameter: `{"filters": ["city = 'Bonn'"], "masks": {"phone": "NULL"}}`."""


def is_bound(parameters: Mapping[str, str] | None) -> bool:
    """Return whether policies bind the reader of a table with these parameters."""
    return READER_POLICIES in (parameters or {})


def rules_of_parameters(parameters: Mapping[str, str] | None, fields: Sequence[DataField], source: str) -> RowRules:
    """Return the rules of the parameters for the columns of the table.

    CorruptFileError naming their source for texts that are none, NotSupportedError for those that do not fit.
    """
    from interbed.storage.base.predicate.grammar import parse_filter
    from interbed.storage.base.predicate.masks import parse_mask
    from interbed.storage.base.predicate.paimon_json import filter_to_paimon, mask_to_paimon

    text = (parameters or {}).get(READER_POLICIES)
    if text is None:
        return RowRules()
    try:
        found = json.loads(text)
        filters, masks = [str(each) for each in found["filters"]], dict(found["masks"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"The answer of {source} has no valid row filters and column masks.") from error
    try:
        return RowRules(
            filters=[filter_to_paimon(parse_filter(each, fields), fields) for each in filters],
            masks={name: mask_to_paimon(parse_mask(str(each), name, fields), fields) for name, each in masks.items()},
        )
    except FilterError as error:
        raise NotSupportedError(
            f"The table cannot be read: a row filter or column mask that {source} has for you does not fit its "
            f"columns any more, and its owner has to set or drop it: {error}"
        ) from error
