package interbed.spark.procedure;

import interbed.spark.catalog.CachedTables;
import interbed.spark.catalog.CurrentNamespace;
import interbed.spark.planner.Planner;
import interbed.spark.planner.Unchecked;
import interbed.spark.thrift.CatalogRef;
import interbed.spark.thrift.ProcedureAnswer;
import interbed.spark.thrift.ProcedureCall;
import interbed.spark.thrift.ProcedureInfo;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.SparkException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.QueryExecutionException;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A procedure that the planner declares and carries out; its work for executors runs here as Spark jobs. */
final class PlannedProcedure implements UnboundProcedure, BoundProcedure {
  private static final String NO_DEFAULT = "NULL";

  /** The parameter with the table of a procedure. */
  private static final String TABLE = "table";

  private final CatalogRef catalog;
  private final ProcedureInfo info;

  PlannedProcedure(CatalogRef catalog, ProcedureInfo info) {
    this.catalog = catalog;
    this.info = info;
  }

  @Override
  public String name() {
    return info.getName();
  }

  @Override
  public String description() {
    return info.getDescription();
  }

  @Override
  public BoundProcedure bind(StructType inputType) {
    ProcedureSignature.of(info).check(inputType);
    return this;
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public ProcedureParameter[] parameters() {
    return info.getParameters().stream().map(PlannedProcedure::parameter).toArray(ProcedureParameter[]::new);
  }

  private static ProcedureParameter parameter(interbed.spark.thrift.ProcedureParameter declared) {
    ProcedureParameter.Builder builder =
        ProcedureParameter.in(declared.getName(), DataType.fromJson(declared.getTypeJson()));
    if (!declared.isMandatory()) {
      builder.defaultValue(declared.isSetDefaultSql() ? declared.getDefaultSql() : NO_DEFAULT);
    }
    return builder.build();
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    ProcedureCall call =
        new ProcedureCall(
            catalog,
            info.getName(),
            CurrentNamespace.in(catalog.getName()),
            ProcedureJson.arguments(info.getParameters(), input));
    call.setTaskSlots(ProcedureJobs.taskSlots());
    ProcedureAnswer answer = carriedOut(call);
    String table = ProcedureJson.text(info.getParameters(), input, TABLE);
    if (table != null) {
      CachedTables.refresh(catalog.getName(), table);
    }
    StructType schema = (StructType) DataType.fromJson(info.getResultSchemaJson());
    Scan rows = new ProcedureRows(schema, ProcedureJson.rows(schema, answer.getRows()));
    return List.of(rows).iterator();
  }

  /** Runs the jobs of the procedure, and returns the answer with its rows. */
  private ProcedureAnswer carriedOut(ProcedureCall call) {
    try (ProcedureJobs jobs = new ProcedureJobs(info.getName())) {
      ProcedureAnswer answer = Planner.askOrThrow(planner -> planner.callProcedure(call));
      while (answer.isSetJob()) {
        ByteBuffer token = ByteBuffer.wrap(answer.getJob().getToken());
        List<ByteBuffer> results;
        try {
          results = jobs.run(answer.getJob());
        } catch (Throwable failure) {
          // Includes Spark's checked exceptions, which Scala's methods don't declare.
          abort(call, token, failure);
          throw Unchecked.rethrow(reason(failure));
        }
        answer = Planner.askOrThrow(planner -> planner.continueProcedure(call, token, results));
      }
      return answer;
    }
  }

  /** Python's exception, if that is the cause; PySpark shows the exception around it with the JVM's stack trace. */
  private static Throwable reason(Throwable failure) {
    Throwable cause = failure.getCause();
    boolean ofPython =
        cause instanceof QueryExecutionException
            || cause instanceof IllegalArgumentException
            || cause instanceof UnsupportedOperationException;
    return failure instanceof SparkException && ofPython ? cause : failure;
  }

  /** Lets the planner delete the files of the job's tasks; its failure is suppressed in favour of the job's own. */
  private static void abort(ProcedureCall call, ByteBuffer token, Throwable failure) {
    try {
      Planner.ask(
          planner -> {
            planner.abortProcedure(call, token);
            return null;
          });
    } catch (RuntimeException second) {
      failure.addSuppressed(second);
    }
  }
}
