"""The answer of a REST server about the row filters and column masks of a table (`AuthTableQueryResponse`)."""

from typing import Any

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.read.guarded_scan import RowRules


def rules_from_json(answer: dict[str, Any], source: str) -> RowRules:
    """Return the rules of an answer. CorruptFileError naming its source for another one: nothing is read then."""
    filters, masks = answer.get("filter"), answer.get("columnMasking")
    # Paimon's servers leave out what there is none of.
    filters = [] if filters is None else filters
    masks = {} if masks is None else masks
    is_valid = (
        isinstance(filters, list)
        and isinstance(masks, dict)
        and all(isinstance(each, str) for each in (*filters, *masks.values()))
    )
    if not is_valid:
        raise CorruptFileError(f"The answer of {source} has no valid row filters and column masks.")
    # An empty text is none, as for Paimon's readers.
    return RowRules(
        filters=[each for each in filters if each], masks={name: each for name, each in masks.items() if each}
    )
