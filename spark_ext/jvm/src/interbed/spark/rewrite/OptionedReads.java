package interbed.spark.rewrite;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Separates the reads of one table with different options within a statement.
 *
 * <p>Spark resolves a table once for each name and version in a statement, and all its reads get the options of the first one. A
 * read with options is therefore resolved as a version of its own, which the catalog recognises by its name.
 */
public final class OptionedReads extends Rule<LogicalPlan> {
  private static final String MARK = "interbed.options-";

  private final SparkSession session;

  public OptionedReads(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperators(
        new PlanRewrite(
            node -> node instanceof UnresolvedRelation relation && !relation.options().isEmpty(),
            node -> separate(session, (UnresolvedRelation) node)));
  }

  /** Whether a version is that of a read with options, which is no version of the table. */
  public static boolean isMark(String version) {
    return version.startsWith(MARK);
  }

  /** The relation as a version of its own, if it is a table of ours and names no version. */
  public static UnresolvedRelation separate(SparkSession session, UnresolvedRelation relation) {
    CaseInsensitiveStringMap options = relation.options();
    String version = key("spark.sql.timeTravelVersionKey", "versionAsOf");
    boolean taken =
        relation.isStreaming()
            || options.containsKey(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES())
            || options.containsKey(version)
            || options.containsKey(key("spark.sql.timeTravelTimestampKey", "timestampAsOf"));
    if (taken || !isOurs(session, CollectionConverters.asJava(relation.multipartIdentifier()))) {
      return relation;
    }
    Map<String, String> given = new HashMap<>(options.asCaseSensitiveMap());
    String text = new TreeMap<>(options).toString();
    given.put(version, MARK + UUID.nameUUIDFromBytes(text.getBytes(StandardCharsets.UTF_8)));
    return new UnresolvedRelation(
        relation.multipartIdentifier(), new CaseInsensitiveStringMap(given), relation.isStreaming());
  }

  private static String key(String setting, String byDefault) {
    return SQLConf.get().getConfString(setting, byDefault);
  }

  private static boolean isOurs(SparkSession session, List<String> parts) {
    if (parts.size() == 1 && session.sessionState().catalog().getTempView(parts.get(0)).isDefined()) {
      return false;
    }
    return CatalogRegistry.of(session).ours(parts).filter(QualifiedName::isTableOfOurs).isPresent();
  }
}
