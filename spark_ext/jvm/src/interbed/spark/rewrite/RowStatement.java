package interbed.spark.rewrite;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.CurrentNamespace;
import interbed.spark.catalog.InterbedCatalog;
import interbed.spark.planner.RepeatedKeyException;
import interbed.spark.planner.RetryableException;
import interbed.spark.planner.Unchecked;
import interbed.spark.value.Names;
import interbed.spark.write.RowStatementScope;
import java.io.FileNotFoundException;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/**
 * Runs UPDATE, DELETE and MERGE INTO of an interbed table. It analyses and runs a statement again when another writer has changed
 * the rows that it read before its commit, or when the files that it reads were deleted. The planner or a task reports this.
 *
 * <p>A statement's plan is registered here under a number, which is the argument of a CALL: unlike its text, the plan has the
 * statement's parameters. The procedure is in the target's catalog and is not listed.
 */
public record RowStatement(TableCatalog catalog) implements UnboundProcedure, BoundProcedure {
  public static final String PROCEDURE = "interbed_row_statement";

  private static final String MAX_RETRIES = "commit.max-retries";
  private static final String SHUFFLE_ONE_SIDE = "spark.sql.sources.v2.bucketing.shuffle.enabled";
  private static final String FILTERED_BY_SOURCE = "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled";
  private static final String MAX_RETRIES_DEFAULT = "10";
  private static final long SHORTEST_PAUSE_MILLIS = 20;
  private static final long LONGEST_PAUSE_MILLIS = 2000;

  /** Statements that were parsed and do not run yet; the oldest ones are dropped beyond a limit. */
  private static final int PENDING_MAX = 1000;

  private static final Map<String, Pending> PENDING =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Pending> eldest) {
          return size() > PENDING_MAX;
        }
      };

  private record Pending(LogicalPlan plan, Identifier target) {}

  /** The CALL that runs the statement, when it changes rows of a table of one of our catalogs. */
  public static Optional<String> translate(LogicalPlan parsed) {
    Optional<List<String>> name = targetOf(parsed);
    // Before Spark 4.1 parameters are bound around the CALL, and the plan inside does not get them.
    if (name.isEmpty() || parsed.containsPattern(TreePattern.PARAMETER())) {
      return Optional.empty();
    }
    CatalogRegistry registry = CatalogRegistry.ofActiveSession();
    Optional<InterbedCatalog> owner = registry.ownerOf(name.get());
    if (owner.isEmpty()) {
      return Optional.empty();
    }
    List<String> parts = name.get();
    int last = parts.size() - 1;
    String namespace = last > 0 ? parts.get(last - 1) : CurrentNamespace.in(owner.get().name());
    String number = UUID.randomUUID().toString();
    synchronized (PENDING) {
      PENDING.put(number, new Pending(parsed, Identifier.of(new String[] {namespace}, parts.get(last))));
    }
    return Optional.of("CALL " + Names.quoted(owner.get().name()) + ".sys." + PROCEDURE + "('" + number + "')");
  }

  private static LogicalPlan statementOf(LogicalPlan parsed) {
    return parsed instanceof UnresolvedWith with ? with.child() : parsed;
  }

  private static Optional<List<String>> targetOf(LogicalPlan parsed) {
    LogicalPlan target = statementOf(parsed);
    if (target instanceof DeleteFromTable delete) {
      target = delete.table();
    } else if (target instanceof UpdateTable update) {
      target = update.table();
    } else if (target instanceof MergeIntoTable merge) {
      target = merge.targetTable();
    } else {
      return Optional.empty();
    }
    while (target instanceof SubqueryAlias alias) {
      target = alias.child();
    }
    return target instanceof UnresolvedRelation relation
        ? Optional.of(CollectionConverters.asJava(relation.multipartIdentifier()))
        : Optional.empty();
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    Pending pending;
    synchronized (PENDING) {
      pending = PENDING.remove(input.getUTF8String(0).toString());
    }
    if (pending == null) {
      throw new IllegalStateException("This statement has run already or was never parsed; write it anew");
    }
    boolean mayUpsert = statementOf(pending.plan()) instanceof MergeIntoTable;
    for (int retry = 0; ; retry++) {
      try {
        run(EvolvingMerge.of(pending.plan(), catalog, pending.target()), mayUpsert);
        return Collections.emptyIterator();
      } catch (Exception error) {
        if (mayUpsert && isOf(error, RepeatedKeyException.class)) {
          // This does not count for the limit of retries below: it cannot happen again.
          mayUpsert = false;
          continue;
        }
        // A conflict is a checked exception that no method in between declares. The other exception is that of Spark's own
        // Parquet reader for a deleted file.
        boolean retryable = isOf(error, RetryableException.class) || isOf(error, FileNotFoundException.class);
        if (!retryable || retry >= maxRetries(pending)) {
          throw Unchecked.rethrow(error);
        }
        pause(retry);
      }
    }
  }

  private static void run(LogicalPlan plan, boolean mayUpsert) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    try (RowStatementScope statement = RowStatementScope.open()) {
      SQLConf.withExistingConf(
          settings(session, plan),
          new AbstractFunction0<>() {
            @Override
            public Object apply() {
              return Dataset$.MODULE$.ofRows(session, withoutLook(session, plan, mayUpsert));
            }
          });
    }
  }

  /** The statement, or an equivalent one that does not read its target. */
  private static LogicalPlan withoutLook(SparkSession session, LogicalPlan plan, boolean mayUpsert) {
    if (statementOf(plan) instanceof DeleteFromTable) {
      return ListedDelete.of(analysed(session, plan));
    }
    return mayUpsert ? UpsertingMerge.of(analysed(session, plan)) : plan;
  }

  private static LogicalPlan analysed(SparkSession session, LogicalPlan plan) {
    return session.sessionState().executePlan(plan, CommandExecutionMode.SKIP()).analyzed();
  }

  /**
   * The session's settings, with which a MERGE's source is shuffled to the target's buckets instead of both to new partitions: the
   * target is usually larger. The session itself keeps the user's settings.
   */
  private static SQLConf settings(SparkSession session, LogicalPlan plan) {
    SQLConf conf = session.sessionState().conf().clone();
    if (!conf.contains(SHUFFLE_ONE_SIDE)) {
      conf.setConfString(SHUFFLE_ONE_SIDE, "true");
    }
    if (statementOf(plan) instanceof MergeIntoTable merge && HiddenColumns.mayBeNamed(merge.sourceTable())) {
      // Spark 4.3 copies the source for this filter, and loses the hidden columns in the copy.
      conf.setConfString(FILTERED_BY_SOURCE, "false");
    }
    return conf;
  }

  private static boolean isOf(Throwable error, Class<?> kind) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (kind.isInstance(cause)) {
        return true;
      }
    }
    return false;
  }

  private int maxRetries(Pending statement) {
    try {
      Table table = catalog.loadTable(statement.target());
      if (FrameMerge.readsItsTarget(statement.plan(), table)) {
        return 0;
      }
      return Integer.parseInt(table.properties().getOrDefault(MAX_RETRIES, MAX_RETRIES_DEFAULT));
    } catch (NoSuchTableException dropped) {
      return 0;
    }
  }

  /** Random part of the back-off: statements that lost to the same writer must not retry at the same time. */
  private static void pause(int retry) {
    long longest = Math.min(LONGEST_PAUSE_MILLIS, SHORTEST_PAUSE_MILLIS << Math.min(retry, 16));
    try {
      Thread.sleep(longest / 4 + ThreadLocalRandom.current().nextLong(longest));
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("Interrupted between two tries of a statement; nothing was changed", error);
    }
  }

  @Override
  public String name() {
    return PROCEDURE;
  }

  @Override
  public String description() {
    return "Runs a statement that changes rows";
  }

  @Override
  public BoundProcedure bind(StructType inputType) {
    return this;
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public ProcedureParameter[] parameters() {
    return new ProcedureParameter[] {ProcedureParameter.in("statement", DataTypes.StringType).build()};
  }
}
