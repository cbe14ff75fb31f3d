package interbed.spark;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.HeldSecrets;
import interbed.spark.catalog.Redaction;
import interbed.spark.catalog.SettingStatement;
import interbed.spark.function.SqlFunctionCalls;
import interbed.spark.planner.Planner;
import interbed.spark.rewrite.AssignedColumns;
import interbed.spark.rewrite.CharConditions;
import interbed.spark.rewrite.CorrelatedValues;
import interbed.spark.rewrite.FrameMerge;
import interbed.spark.rewrite.HiddenColumns;
import interbed.spark.rewrite.HiddenInserts;
import interbed.spark.rewrite.IncrementalFunctions;
import interbed.spark.rewrite.OptionedReads;
import interbed.spark.rewrite.RowStatement;
import interbed.spark.rewrite.SchemaMerging;
import interbed.spark.statement.AnalyzeStatements;
import interbed.spark.statement.BinaryPartitions;
import interbed.spark.statement.CatalogStatement;
import interbed.spark.statement.DropPartitionStatements;
import interbed.spark.statement.FunctionStatements;
import interbed.spark.statement.GrantStatement;
import interbed.spark.statement.LikeStatement;
import interbed.spark.statement.PolicyStatement;
import interbed.spark.statement.StatementTranslation;
import interbed.spark.statement.TagStatement;
import interbed.spark.statement.ViewListing;
import interbed.spark.statement.ViewResolution;
import interbed.spark.statement.ViewStatements;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * The class for spark.sql.extensions: it adds statements about catalogs, tags, views and more to the session.
 *
 * <p>The parser is a proxy around Spark's, since ParserInterface gets more abstract methods from version to version, or around
 * another extension's. It has the interfaces of that one, too: Iceberg looks for its own parser in the session. It translates
 * statements that Spark does not support, or not for catalogs, to a CALL of a procedure of {@code SystemCatalog}, and passes all
 * others on.
 */
public final class SparkExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  /** Statements that Spark parses and that are then translated to others. */
  private static final List<StatementTranslation> TRANSLATIONS =
      List.of(
          (sql, parsed) -> RowStatement.translate(parsed),
          new ViewStatements(),
          new FunctionStatements(),
          new AnalyzeStatements(),
          new BinaryPartitions(),
          new DropPartitionStatements());

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    Redaction.widen();
    if (CatalogRegistry.isConfigured()) {
      Planner.prepare();
    }
    IncrementalFunctions.inject(extensions);
    extensions.injectParser((session, delegate) -> StatementParser.before(delegate));
    extensions.injectResolutionRule(
        session -> new ViewResolution((org.apache.spark.sql.classic.SparkSession) session));
    extensions.injectResolutionRule(session -> new ViewListing());
    extensions.injectResolutionRule(session -> new SchemaMerging());
    extensions.injectPostHocResolutionRule(session -> new HiddenInserts());
    extensions.injectPostHocResolutionRule(session -> new CorrelatedValues());
    extensions.injectPostHocResolutionRule(session -> new AssignedColumns());
    extensions.injectPostHocResolutionRule(session -> new SqlFunctionCalls());
    extensions.injectPostHocResolutionRule(session -> new CharConditions());
    extensions.injectHintResolutionRule(session -> new FrameMerge((org.apache.spark.sql.classic.SparkSession) session));
    extensions.injectHintResolutionRule(
        session -> new HiddenColumns((org.apache.spark.sql.classic.SparkSession) session));
    extensions.injectHintResolutionRule(
        session -> new OptionedReads((org.apache.spark.sql.classic.SparkSession) session));
    return BoxedUnit.UNIT;
  }

  /** Calls the wrapped parser on the statement or its translation. */
  private record StatementParser(ParserInterface delegate) implements InvocationHandler {
    static ParserInterface before(ParserInterface delegate) {
      Set<Class<?>> interfaces = new LinkedHashSet<>(Set.of(ParserInterface.class));
      for (Class<?> type = delegate.getClass(); type != null; type = type.getSuperclass()) {
        Arrays.stream(type.getInterfaces()).filter(i -> Modifier.isPublic(i.getModifiers())).forEach(interfaces::add);
      }
      return (ParserInterface)
          Proxy.newProxyInstance(
              delegate.getClass().getClassLoader(),
              interfaces.toArray(Class<?>[]::new),
              new StatementParser(delegate));
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
      if (method.getName().startsWith("parsePlan") || method.getName().equals("parseMultipartIdentifier")) {
        // Each use of a catalog begins with the text of a statement or a name.
        HeldSecrets.holdBack();
      }
      // parsePlan, and parsePlanWithParameters from 4.1 on.
      if (!method.getName().startsWith("parsePlan") || !(arguments[0] instanceof String sql)) {
        return parse(method, arguments);
      }
      Optional<String> call = ownStatement(sql);
      if (call.isPresent()) {
        return parse(method, withText(arguments, call.get()));
      }
      Object parsed = parse(method, withText(arguments, SettingStatement.quoted(sql)));
      for (StatementTranslation translation : TRANSLATIONS) {
        Optional<String> translated = translation.translate(sql, (LogicalPlan) parsed);
        if (translated.isPresent()) {
          return parse(method, withText(arguments, translated.get()));
        }
      }
      return parsed;
    }

    /** The CALL, or Spark's own statement, for a statement that Spark does not parse. */
    private static Optional<String> ownStatement(String sql) {
      return CatalogStatement.parse(sql)
          .map(CatalogStatement::toCall)
          .or(() -> CatalogStatement.use(sql))
          .or(() -> TagStatement.parse(sql).map(TagStatement::toCall))
          .or(() -> LikeStatement.parse(sql).map(LikeStatement::toCall))
          .or(() -> PolicyStatement.parse(sql).map(PolicyStatement::toCall))
          .or(() -> GrantStatement.parse(sql).map(GrantStatement::toCall));
    }

    private static Object[] withText(Object[] arguments, String sql) {
      Object[] changed = arguments.clone();
      changed[0] = sql;
      return changed;
    }

    private Object parse(Method method, Object[] arguments) throws Throwable {
      try {
        return method.invoke(delegate, arguments);
      } catch (InvocationTargetException error) {
        throw error.getCause();
      }
    }
  }
}
