package interbed.spark.function;

import interbed.spark.thrift.WriteClustering;
import interbed.spark.value.Names;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * interbed_place_of_change(file, n, column, …): the clustering of changed rows. Rows of one file have one value, so that one
 * task rewrites the file. A row without a file has the value of its columns, so that many tasks write the new rows. The first n
 * columns are those of the partition, which only a few tasks write: otherwise it would get a file of every task.
 *
 * <p>Spark finds it in our catalogs by its name; it is not listed, since it has no use in a query.
 */
public final class PlaceOfChange implements UnboundFunction {
  public static final String NAME = "interbed_place_of_change";

  private static final int TASKS_OF_A_PARTITION = 8;

  public static Distribution distribution(WriteClustering clustering, int partitionColumns) {
    List<Expression> arguments = new ArrayList<>();
    arguments.add(Names.reference(clustering.getColumns().get(0)));
    arguments.add(Expressions.literal(partitionColumns));
    clustering.getSpread().forEach(column -> arguments.add(Names.reference(column)));
    return Distributions.clustered(new Expression[] {Expressions.apply(NAME, arguments.toArray(Expression[]::new))});
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "Where a changed row is written";
  }

  @Override
  public BoundFunction bind(StructType inputType) {
    return new Bound(Arrays.stream(inputType.fields()).map(StructField::dataType).toArray(DataType[]::new));
  }

  private static final class Bound implements ScalarFunction<Integer> {
    private static final long serialVersionUID = 1L;

    private static final int FIRST_COLUMN = 2;

    private final DataType[] types;

    private Bound(DataType[] types) {
      this.types = types;
    }

    @Override
    public DataType[] inputTypes() {
      return types;
    }

    @Override
    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    @Override
    public boolean isResultNullable() {
      return false;
    }

    @Override
    public String name() {
      return NAME;
    }

    /** Compares the types' names, too: Spark computes equal expressions only once. */
    @Override
    public String canonicalName() {
      return NAME + Arrays.toString(types);
    }

    @Override
    public Integer produceResult(InternalRow row) {
      if (!row.isNullAt(0)) {
        return row.getUTF8String(0).hashCode();
      }
      int firstOfRow = FIRST_COLUMN + row.getInt(1);
      int ofPartition = hash(row, FIRST_COLUMN, firstOfRow);
      int ofRow = hash(row, firstOfRow, types.length);
      return firstOfRow == FIRST_COLUMN ? ofRow : 31 * ofPartition + Math.floorMod(ofRow, TASKS_OF_A_PARTITION);
    }

    private int hash(InternalRow row, int begin, int end) {
      int hash = 0;
      for (int i = begin; i < end; i++) {
        Object value = row.isNullAt(i) ? null : row.get(i, types[i]);
        hash = 31 * hash + (value instanceof byte[] bytes ? Arrays.hashCode(bytes) : Objects.hashCode(value));
      }
      return hash;
    }
  }
}
