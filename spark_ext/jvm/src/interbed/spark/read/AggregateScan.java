package interbed.spark.read;

import interbed.spark.value.Literals;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Aggregates that the planner has answered from metadata: their rows, without any splits. */
final class AggregateScan implements LocalScan, SupportsReportStatistics {
  private final StructType schema;
  private final InternalRow[] rows;

  AggregateScan(StructType schema, List<String> answers) {
    this.schema = schema;
    DataType[] types = Arrays.stream(schema.fields()).map(StructField::dataType).toArray(DataType[]::new);
    this.rows = answers.stream().map(answer -> Literals.row(answer, types)).toArray(InternalRow[]::new);
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public InternalRow[] rows() {
    return rows;
  }

  @Override
  public String description() {
    return "interbed aggregates from metadata " + schema.simpleString();
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of((long) rows.length * schema.defaultSize());
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.of(rows.length);
      }
    };
  }
}
