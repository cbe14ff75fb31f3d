"""Java Paimon and interbed, given the same random changes, agree on the rows and on the changelog of every table.

Java alone writes and compacts one table, a model. On the other each step is taken by the hand that the story names:
interbed alone, or both in turns. After every step both read both tables, and what the step changed in them. pypaimon
reads the table at the end where it knows the merge engine.
"""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given

from interbed.storage.base.errors import NotSupportedError
from tests.interop.change_stories import ChangeStory, Commit, Step, change_stories
from tests.interop.lsm.merge_cases import in_order, seen
from tests.interop.strategies import random_examples
from tests.support.peers.interbed import InterbedTable, interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.peers.json import normalised
from tests.support.peers.pypaimon import PyPaimon

Told = list[tuple[str, str]]
"""Changes as kinds and rows in JSON; those of one key stay in their order."""

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
"""The cases whose merge engine and options pypaimon has."""


@dataclass(slots=True)
class Telling:
    """A story as it is told: the model, which Java alone writes, and the table that the story's hands write."""

    story: ChangeStory
    model: tuple[InterbedTable, JavaTable]
    shared: tuple[InterbedTable, JavaTable]
    read_to: dict[str, int] = field(default_factory=dict)

    def create(self) -> None:
        """Create both tables: the model by Java, the other one by interbed."""
        for table in (self.model[1], self.shared[0]):
            table.create(
                self.story.columns,
                primary_keys=self.story.primary_keys,
                partition_keys=self.story.partition_keys,
                options=self.story.options,
            )

    def take(self, step: Step) -> None:
        """Do the step to both tables, and see that all agree."""
        _do(step, self.model[1])
        _do(step, self.shared[0] if step.by == "interbed" else self.shared[1])
        rows = seen(self.model[1].read(), self.story.case)
        assert seen(self.model[0].read(), self.story.case) == rows, "interbed reads what Java wrote"
        assert seen(self.shared[0].read(), self.story.case) == rows, "interbed reads the shared table"
        assert seen(self.shared[1].read(), self.story.case) == rows, "Java reads the shared table"
        told = self._told(self.model, self.model[1])
        assert self._told(self.shared, self.shared[1]) == told, "Java reads the changes of the shared table"
        if self.story.options.get("merge-engine") == "first-row" and self.story.producer == "none":
            # Java takes each written row for a change, those too that the table ignores.
            for table in (self.model, self.shared):
                with pytest.raises(NotSupportedError, match="rows are written that the table ignores"):
                    self._told(table, table[0])
        else:
            assert self._told(self.model, self.model[0]) == told, "interbed reads the changes that Java wrote"
            assert self._told(self.shared, self.shared[0]) == told, "interbed reads the changes of the shared table"
        for ours, _ in (self.model, self.shared):
            self.read_to[ours.name] = ours.last_snapshot_id()

    def _told(self, table: tuple[InterbedTable, JavaTable], reader: InterbedTable | JavaTable) -> Told:
        """The changes of the snapshots that the step made."""
        first, last = self.read_to.get(table[0].name, 0) + 1, table[0].last_snapshot_id()
        keys = [name for name, _ in self.story.columns if name in self.story.primary_keys]
        read = reader.changes(first, last)
        at = [read.names.index(key) for key in keys]
        told: list[tuple[str, str, str]] = []
        for kind, row in zip(read.kinds, read.rows, strict=True):
            form = [normalised(value, of) for value, of in zip(row, read.types, strict=True)]
            form = in_order(form, read.names, self.story.case)
            told.append((json.dumps([row[i] for i in at]), kind, json.dumps(form)))
        told.sort(key=lambda change: change[0])
        return [(kind, row) for _, kind, row in told]


def _do(step: Step, table: InterbedTable | JavaTable) -> None:
    if isinstance(step, Commit):
        table.write(step.rows, kinds=step.kinds)
    else:
        table.compact(full=step.full)


@random_examples(16)
@given(story=change_stories())
def test_all_agree_on_rows_and_changes(
    java_paimon: JavaPaimon,
    pypaimon: PyPaimon,
    tmp_path_factory: pytest.TempPathFactory,
    story: ChangeStory,
) -> None:
    warehouse = tmp_path_factory.mktemp("changes")
    telling = Telling(
        story=story,
        model=(interbed_table(warehouse, "db.model"), java_paimon.table(warehouse, "db.model")),
        shared=(interbed_table(warehouse, "db.shared"), java_paimon.table(warehouse, "db.shared")),
    )
    telling.create()
    for step in story.steps:
        telling.take(step)
    # Of deletion vectors pypaimon reads those of 32 bits.
    if story.case.name in READ_BY_PYPAIMON and story.options.get("deletion-vectors.bitmap64") != "true":
        read = pypaimon.table(warehouse, "db.shared").read()
        assert seen(read, story.case) == seen(telling.model[1].read(), story.case), "pypaimon reads the shared table"
