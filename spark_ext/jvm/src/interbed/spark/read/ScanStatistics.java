package interbed.spark.read;

import interbed.spark.thrift.ColumnEstimate;
import interbed.spark.thrift.ScanEstimate;
import interbed.spark.thrift.ScanPlan;
import interbed.spark.value.Literals;
import interbed.spark.value.Names;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Statistics of a scan for Spark's optimizer, which chooses joins and their order by them. */
record ScanStatistics(OptionalLong sizeInBytes, OptionalLong numRows, Map<NamedReference, ColumnStatistics> columnStats)
    implements Statistics {

  /** Statistics of a stream, whose batches are not known yet. */
  static ScanStatistics unknown() {
    return new ScanStatistics(OptionalLong.empty(), OptionalLong.empty(), Map.of());
  }

  static ScanStatistics of(ScanPlan plan, StructType schema) {
    ScanEstimate estimate = plan.getEstimate();
    if (estimate == null) {
      return new ScanStatistics(
          OptionalLong.of(plan.getByteSize()), OptionalLong.of(plan.getRowCount()), Map.of());
    }
    Map<NamedReference, ColumnStatistics> columns = new HashMap<>();
    for (ColumnEstimate column : estimate.getColumns()) {
      columns.put(
          Names.reference(column.getColumn()), ofColumn(column, schema.apply(column.getColumn()).dataType()));
    }
    return new ScanStatistics(
        OptionalLong.of(estimate.getByteSize()), OptionalLong.of(estimate.getRowCount()), columns);
  }

  private static ColumnStatistics ofColumn(ColumnEstimate column, DataType type) {
    InternalRow bounds =
        column.isSetBounds() ? Literals.row(column.getBounds(), new DataType[] {type, type}) : null;
    return new OfColumn(
        number(column.isSetDistinctCount(), column.getDistinctCount()),
        Optional.ofNullable(bounds == null ? null : bounds.get(0, type)),
        Optional.ofNullable(bounds == null ? null : bounds.get(1, type)),
        number(column.isSetNullCount(), column.getNullCount()),
        number(column.isSetAverageLength(), column.getAverageLength()),
        number(column.isSetMaximalLength(), column.getMaximalLength()));
  }

  private static OptionalLong number(boolean known, long value) {
    return known ? OptionalLong.of(value) : OptionalLong.empty();
  }

  /** One column; bounds are Spark's internal values. */
  private record OfColumn(
      OptionalLong distinctCount,
      Optional<Object> min,
      Optional<Object> max,
      OptionalLong nullCount,
      OptionalLong avgLen,
      OptionalLong maxLen)
      implements ColumnStatistics {}
}
