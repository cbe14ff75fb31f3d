package interbed.spark.catalog;

import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Defaults of columns with the offset of the session's time zone in their timestamps, since the planner has no session. */
final class DefaultLiterals {
  private static final String KEY = "CURRENT_DEFAULT";

  private static final long MICROS_PER_SECOND = 1_000_000L;

  private static final DateTimeFormatter WITH_OFFSET =
      DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSSxxxxx");

  private DefaultLiterals() {}

  static StructType withOffsets(StructType columns) {
    return new StructType(
        Arrays.stream(columns.fields()).map(DefaultLiterals::withOffsets).toArray(StructField[]::new));
  }

  private static StructField withOffsets(StructField column) {
    if (!column.metadata().contains(KEY)) {
      return column;
    }
    String sql = withOffsets(column.metadata().getString(KEY));
    return new StructField(
        column.name(),
        column.dataType(),
        column.nullable(),
        new MetadataBuilder().withMetadata(column.metadata()).putString(KEY, sql).build());
  }

  /** The SQL with the session's zone for timestamps without one; unchanged if it has none. */
  static String withOffsets(String sql) {
    StringBuilder changed = new StringBuilder(sql);
    for (Literal literal : timestamps(sql)) {
      int start = (Integer) literal.origin().startIndex().get();
      int stop = (Integer) literal.origin().stopIndex().get();
      changed.replace(start, stop + 1, text((Long) literal.value()));
    }
    return changed.toString();
  }

  /** The literals that are instants, the last one first. */
  private static List<Literal> timestamps(String sql) {
    try {
      Expression parsed = SparkSession.active().sessionState().sqlParser().parseExpression(sql);
      return CollectionConverters.asJava(parsed.collectLeaves()).stream()
          .filter(leaf -> leaf instanceof Literal && leaf.dataType().equals(DataTypes.TimestampType))
          .filter(leaf -> leaf.origin().startIndex().isDefined() && leaf.origin().stopIndex().isDefined())
          .map(Literal.class::cast)
          .sorted(Comparator.comparing((Literal leaf) -> (Integer) leaf.origin().startIndex().get()).reversed())
          .toList();
    } catch (ParseException error) {
      // The planner refuses it, and names the column.
      return List.of();
    }
  }

  private static String text(long micros) {
    Instant instant =
        Instant.ofEpochSecond(
            Math.floorDiv(micros, MICROS_PER_SECOND), Math.floorMod(micros, MICROS_PER_SECOND) * 1_000L);
    ZoneId zone = DateTimeUtils.getZoneId(SQLConf.get().sessionLocalTimeZone());
    return "TIMESTAMP_LTZ '" + instant.atZone(zone).format(WITH_OFFSET) + "'";
  }
}
