"""A plan that is carried out in order to see what a read decodes."""

from collections.abc import Sequence
from dataclasses import replace

from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.files.decode_tally import DecodeTally
from interbed.storage.meta.store import TableStore
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.explain import DecodedExplanation, Explanation, ReadExplanation
from interbed.storage.scan.split import Split


def with_reading(
    explanation: Explanation, store: TableStore, splits: Sequence[Split], predicate: Predicate | None
) -> Explanation:
    """The explanation of a plan with what reading its splits has decoded; raises what reading raises."""
    tally = DecodeTally()
    rows = sum(batch.num_rows for batch in TableRead(store, predicate=predicate, tally=tally).to_reader(splits))
    decoded = tuple(
        DecodedExplanation(reason=reason, rows=values // max(columns, 1), columns=columns, bytes=nbytes)
        for reason, (values, columns, nbytes) in sorted(tally.by_reason().items())
    )
    return replace(explanation, reading=ReadExplanation(rows=rows, decoded=decoded))
