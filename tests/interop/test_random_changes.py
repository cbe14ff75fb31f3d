"""Java Paimon and interbed agree on rows and changelog of every table after the same random changes.

Java alone writes and compacts one table, the model. On the other, each step is done by the implementation that the
history names: by interbed alone, or by both in turns. After every step both read both tables and the changes of the
step. pypaimon reads the table at the end if it knows the merge engine.
"""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given

from interbed.storage.base.errors import NotSupportedError
from tests.interop.change_histories import ChangeHistory, CommitStep, Step, change_histories
from tests.interop.lsm.merge_cases import canonical_rows, in_order
from tests.interop.strategies import random_examples
from tests.support.peers.interbed import InterbedTable, interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.peers.json import normalised
from tests.support.peers.pypaimon import PyPaimon

ReadChanges = list[tuple[str, str]]
"""Changes as kinds and rows in JSON; changes of one key keep their order."""

READ_BY_PYPAIMON = frozenset(
    {
        "deduplicate-two-sequences",
        "deduplicate-descending",
        "deduplicate-ignoring-updates-before",
        "rowkind-field",
        "first-row",
        "partial-update",
    }
)
"""Cases whose merge engine and options pypaimon supports."""


@dataclass(slots=True)
class HistoryReplay:
    """Replay of a history: the model, which Java alone writes, and the table that the named implementations write."""

    history: ChangeHistory
    model: tuple[InterbedTable, JavaTable]
    shared: tuple[InterbedTable, JavaTable]
    read_to: dict[str, int] = field(default_factory=dict)

    def create(self) -> None:
        """Create both tables: the model by Java, the other one by interbed."""
        for table in (self.model[1], self.shared[0]):
            table.create(
                self.history.columns,
                primary_keys=self.history.primary_keys,
                partition_keys=self.history.partition_keys,
                options=self.history.options,
            )

    def apply(self, step: Step) -> None:
        """Apply the step to both tables, and assert that all readers agree."""
        _do(step, self.model[1])
        _do(step, self.shared[0] if step.by == "interbed" else self.shared[1])
        rows = canonical_rows(self.model[1].read(), self.history.case)
        assert canonical_rows(self.model[0].read(), self.history.case) == rows, "interbed reads what Java wrote"
        assert canonical_rows(self.shared[0].read(), self.history.case) == rows, "interbed reads the shared table"
        assert canonical_rows(self.shared[1].read(), self.history.case) == rows, "Java reads the shared table"
        changes = self._read_changes(self.model, self.model[1])
        assert self._read_changes(self.shared, self.shared[1]) == changes, "Java reads the changes of the shared table"
        if self.history.options.get("merge-engine") == "first-row" and self.history.producer == "none":
            # Java returns each written row as a change, even those that the table ignores.
            for table in (self.model, self.shared):
                if table[0].last_snapshot_id() == self.read_to.get(table[0].name, 0):
                    # A compaction with nothing to do makes no snapshot.
                    assert self._read_changes(table, table[0]) == changes == []
                    continue
                with pytest.raises(NotSupportedError, match="rows are written that the table ignores"):
                    self._read_changes(table, table[0])
        else:
            assert self._read_changes(self.model, self.model[0]) == changes, (
                "interbed reads the changes that Java wrote"
            )
            assert self._read_changes(self.shared, self.shared[0]) == changes, (
                "interbed reads the changes of the shared table"
            )
        for ours, _ in (self.model, self.shared):
            self.read_to[ours.name] = ours.last_snapshot_id()

    def _read_changes(self, table: tuple[InterbedTable, JavaTable], reader: InterbedTable | JavaTable) -> ReadChanges:
        """Return the changes of the snapshots that the step made."""
        first, last = self.read_to.get(table[0].name, 0) + 1, table[0].last_snapshot_id()
        keys = [name for name, _ in self.history.columns if name in self.history.primary_keys]
        read = reader.changes(first, last)
        at = [read.names.index(key) for key in keys]
        changes: list[tuple[str, str, str]] = []
        for kind, row in zip(read.kinds, read.rows, strict=True):
            form = [normalised(value, of) for value, of in zip(row, read.types, strict=True)]
            form = in_order(form, read.names, self.history.case)
            changes.append((json.dumps([row[i] for i in at]), kind, json.dumps(form)))
        changes.sort(key=lambda change: change[0])
        return [(kind, row) for _, kind, row in changes]


def _do(step: Step, table: InterbedTable | JavaTable) -> None:
    if isinstance(step, CommitStep):
        table.write(step.rows, kinds=step.kinds)
    else:
        table.compact(full=step.full)


@pytest.mark.long
@random_examples(16)
@given(history=change_histories())
def test_all_readers_agree_on_rows_and_changes(
    java_paimon: JavaPaimon,
    pypaimon: PyPaimon,
    tmp_path_factory: pytest.TempPathFactory,
    history: ChangeHistory,
) -> None:
    warehouse = tmp_path_factory.mktemp("changes")
    telling = HistoryReplay(
        history=history,
        model=(interbed_table(warehouse, "db.model"), java_paimon.table(warehouse, "db.model")),
        shared=(interbed_table(warehouse, "db.shared"), java_paimon.table(warehouse, "db.shared")),
    )
    telling.create()
    for step in history.steps:
        telling.apply(step)
    # pypaimon reads only deletion vectors of 32 bits.
    if history.case.name in READ_BY_PYPAIMON and history.options.get("deletion-vectors.bitmap64") != "true":
        read = pypaimon.table(warehouse, "db.shared").read()
        assert canonical_rows(read, history.case) == canonical_rows(telling.model[1].read(), history.case), (
            "pypaimon reads the shared table"
        )
