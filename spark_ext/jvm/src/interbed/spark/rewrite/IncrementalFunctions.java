package interbed.spark.rewrite;

import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Paimon's functions that read the changes of a table: SELECT * FROM paimon_incremental_query('db.t', '2', '5').
 *
 * <p>Each is replaced by the table with an option; Spark resolves the table as usual.
 */
public final class IncrementalFunctions {
  private static final String TO_AUTO_TAG = "paimon_incremental_to_auto_tag";

  private static final String BETWEEN_TIMES = "paimon_incremental_between_timestamp";

  private static final Map<String, String> OPTIONS =
      Map.of(
          "paimon_incremental_query", "incremental-between",
          BETWEEN_TIMES, "incremental-between-timestamp",
          TO_AUTO_TAG, "incremental-to-auto-tag");

  private static final DateTimeFormatter WITH_OFFSET =
      DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSSxxx").withZone(ZoneOffset.UTC);

  private IncrementalFunctions() {}

  public static void inject(SparkSessionExtensions extensions) {
    OPTIONS.forEach(
        (name, option) ->
            extensions.injectTableFunction(
                new Tuple3<>(
                    new FunctionIdentifier(name),
                    new ExpressionInfo(IncrementalFunctions.class.getName(), name),
                    new AbstractFunction1<Seq<Expression>, LogicalPlan>() {
                      @Override
                      public LogicalPlan apply(Seq<Expression> arguments) {
                        return relation(name, option, arguments);
                      }
                    })));
  }

  private static LogicalPlan relation(String name, String option, Seq<Expression> arguments) {
    List<String> texts = new ArrayList<>();
    for (Expression argument : CollectionConverters.asJava(arguments)) {
      Object value = argument.foldable() ? text(argument) : null;
      if (value == null) {
        throw new IllegalArgumentException(name + " takes constants, not " + argument.sql());
      }
      texts.add(value.toString());
    }
    boolean toTag = name.equals(TO_AUTO_TAG);
    if (texts.size() != (toTag ? 2 : 3)) {
      String taken = toTag ? "the name of a table and a tag" : "the name of a table, a start and an end";
      throw new IllegalArgumentException(name + " takes " + taken + ", not " + texts.size() + " arguments");
    }
    if (name.equals(BETWEEN_TIMES)) {
      withOffsets(texts.subList(1, texts.size()));
    }
    UnresolvedRelation read =
        new UnresolvedRelation(
            CatalystSqlParser$.MODULE$.parseMultipartIdentifier(texts.get(0)),
            new CaseInsensitiveStringMap(Map.of(option, String.join(",", texts.subList(1, texts.size())))),
            false);
    return OptionedReads.separate((SparkSession) org.apache.spark.sql.SparkSession.active(), read);
  }

  /** The argument in the session's text format. */
  private static Object text(Expression argument) {
    return new Cast(
            argument,
            DataTypes.StringType,
            Option.apply(SQLConf.get().sessionLocalTimeZone()),
            EvalMode.fromSQLConf(SQLConf.get()))
        .eval(null);
  }

  /** Times of the session's zone with their offset, as those of TIMESTAMP AS OF are; milliseconds stay as they are. */
  private static void withOffsets(List<String> times) {
    if (times.stream().allMatch(time -> time.matches("-?\\d+"))) {
      return;
    }
    ZoneId zone = DateTimeUtils.getZoneId(SQLConf.get().sessionLocalTimeZone());
    // A text that Spark can't parse as a time is refused when the option is read.
    times.replaceAll(
        time -> {
          Option<Object> micros = DateTimeUtils.stringToTimestamp(UTF8String.fromString(time), zone);
          return micros.isEmpty() ? time : WITH_OFFSET.format(DateTimeUtils.microsToInstant((Long) micros.get()));
        });
  }
}
