"""Filters by partition: which manifests and files it excludes, and which residual filter is left.

The residual of a partition has no test that all of its rows pass, and is false if none can pass. A test is projected
to the fields of the partition twice: a strict projection is true only where all rows pass, an inclusive projection is
false only where none does. Source: Iceberg's table specification, "Scan Planning".
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundPredicate, UnboundPredicate
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    expression_evaluator,
    manifest_evaluator,
)
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from interbed.iceberg.meta.live_files import keeps
from interbed.iceberg.rest_scan.conditions import (
    ColumnTest,
    Condition,
    ConstantCondition,
    JoinedConditions,
    column_tests_of,
    condition_expression,
    joined,
)

_RESIDUALS_MAX = 10_000
"""Partitions whose residual is kept."""

_Evaluation = Callable[[Record], bool]


@dataclass(frozen=True, slots=True)
class _TestProjection:
    """A test over the fields of a partition."""

    inclusive: BooleanExpression
    excludes: tuple[_Evaluation, ...]
    includes: tuple[_Evaluation, ...]


class SpecFilter:
    """A filter over the partitions of one spec."""

    def __init__(self, schema: Schema, spec: PartitionSpec, condition: Condition) -> None:
        self._spec = spec
        self._schema = schema
        self._condition = condition
        self._of_partition = Schema(*spec.partition_type(schema).fields)
        self._tests = {id(test): self._projected(test) for test in column_tests_of(condition)}
        inclusive = condition_expression(condition, lambda test: self._tests[id(test)].inclusive)
        self.keeps_manifest = manifest_evaluator(spec, schema, inclusive)
        self._keeps = expression_evaluator(self._of_partition, inclusive, case_sensitive=True)
        self._residuals: dict[tuple[object, ...], Condition] = {}

    def keeps(self, partition: Record) -> bool:
        """Return whether a partition may have rows of the filter."""
        return self._keeps(partition)

    def residual(self, partition: Record) -> Condition:
        """Return the condition that is left for the rows of a partition."""
        key = tuple(partition[place] for place in range(len(partition)))
        found = self._residuals.get(key)
        if found is None:
            if len(self._residuals) >= _RESIDUALS_MAX:
                self._residuals.clear()
            found = self._residuals[key] = self._left(self._condition, partition)
        return found

    def _left(self, condition: Condition, partition: Record) -> Condition:
        match condition:
            case JoinedConditions(word, parts):
                return joined(word, [self._left(part, partition) for part in parts])
            case ColumnTest():
                projection = self._tests[id(condition)]
                if any(passes(partition) for passes in projection.includes):
                    return ConstantCondition(True)
                if any(not may_pass(partition) for may_pass in projection.excludes):
                    return ConstantCondition(False)
        return condition

    def _projected(self, test: ColumnTest) -> _TestProjection:
        if test.named is None:
            return _TestProjection(AlwaysTrue(), (), ())
        if test.transform is not None:
            return self._of_transform(test, test.transform)
        bound = test.named(test.column).bind(self._schema)
        assert isinstance(bound, BoundPredicate)
        inclusive: BooleanExpression = AlwaysTrue()
        excludes, includes = [], []
        for part in self._spec.fields_by_source_id(test.source_id):
            projected = _projection(part.transform.project, part.name, bound)
            if projected is not None:
                inclusive = inclusive & projected
                excludes.append(self._evaluation(projected))
            strict = _projection(part.transform.strict_project, part.name, bound)
            if strict is not None:
                includes.append(self._evaluation(strict))
        return _TestProjection(inclusive, tuple(excludes), tuple(includes))

    def _of_transform(self, test: ColumnTest, transform: str) -> _TestProjection:
        """Return a test of a transformed column, which is exact if the spec has the same transform."""
        assert test.named is not None
        for part in self._spec.fields_by_source_id(test.source_id):
            if str(part.transform) == transform:
                predicate = test.named(part.name)
                exact = self._evaluation(predicate)
                return _TestProjection(predicate, (exact,), (exact,))
        return _TestProjection(AlwaysTrue(), (), ())

    def _evaluation(self, predicate: BooleanExpression) -> _Evaluation:
        return expression_evaluator(self._of_partition, predicate, case_sensitive=True)


def _projection(
    project: Callable[[str, BoundPredicate], UnboundPredicate | None], name: str, test: BoundPredicate
) -> UnboundPredicate | None:
    try:
        return project(name, test)
    except OverflowError:
        # pyiceberg finds years and months by Python's dates, which end with the year 9999: this test prunes nothing.
        return None


class FileFilter:
    """A filter over manifests and files of all specs of a table. `schema` has dropped columns, too."""

    def __init__(self, metadata: TableMetadata, schema: Schema, condition: Condition) -> None:
        self._specs = metadata.specs()
        self._schema = schema
        self._condition = condition
        self._filters: dict[int, SpecFilter] = {}
        self._metrics = _InclusiveMetricsEvaluator(schema, condition_expression(condition, _on_column))

    def of(self, number: int) -> SpecFilter:
        """Return the filter over the partitions of a spec."""
        found = self._filters.get(number)
        if found is None:
            found = self._filters[number] = SpecFilter(self._schema, self._specs[number], self._condition)
        return found

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Return whether one of the files of a manifest may matter."""
        return keeps(self.of(manifest.partition_spec_id).keeps_manifest, manifest)

    def keeps_file(self, file: DataFile) -> bool:
        """Return whether a file may have rows of the filter, or deletes of such rows."""
        return self.of(file.spec_id).keeps(file.partition) and keeps(self._metrics.eval, file)

    def residual(self, file: DataFile) -> Condition:
        """Return the condition that is left for the rows of a file."""
        return self.of(file.spec_id).residual(file.partition)


def _on_column(test: ColumnTest) -> BooleanExpression:
    return AlwaysTrue() if test.named is None or test.transform is not None else test.named(test.column)
