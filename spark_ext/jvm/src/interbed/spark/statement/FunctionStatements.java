package interbed.spark.statement;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.function.CatalogFunctions;
import interbed.spark.function.PlannedFunction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunctionName;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.CreateFunction;
import org.apache.spark.sql.catalyst.plans.logical.CreateUserDefinedFunction;
import org.apache.spark.sql.catalyst.plans.logical.DescribeFunction;
import org.apache.spark.sql.catalyst.plans.logical.DropFunction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** CREATE, DROP and DESCRIBE FUNCTION in catalogs of ours; Spark lists their functions by itself. */
public final class FunctionStatements implements StatementTranslation {
  private static final ObjectMapper JSON = new ObjectMapper();

  static final List<SystemProcedure> PROCEDURES =
      List.of(
          SystemProcedure.silent("create_function", FunctionStatements::create),
          SystemProcedure.silent("drop_function", FunctionStatements::drop),
          new SystemProcedure(
              "describe_function",
              new StructType().add("function_desc", DataTypes.StringType, false),
              FunctionStatements::describe));

  @Override
  public Optional<String> translate(String sql, LogicalPlan parsed) {
    if (parsed instanceof CreateUserDefinedFunction create) {
      return ours(create.child()).map(name -> SystemCall.of("create_function", definition(name, create)));
    }
    if (parsed instanceof CreateFunction create) {
      ours(create.child())
          .ifPresent(
              name -> {
                throw new UnsupportedOperationException(
                    "CREATE FUNCTION " + name + " AS '" + create.className() + "': Spark runs functions of catalogs by "
                        + "definitions in SQL; write CREATE FUNCTION " + name + "(…) RETURNS … RETURN …, or CALL "
                        + name.catalog().name() + ".sys.alter_function for a definition of another engine");
              });
      return Optional.empty();
    }
    if (parsed instanceof DropFunction drop) {
      return ours(drop.child())
          .map(
              name -> {
                Map<String, Object> fields = fields(name);
                fields.put("ifExists", drop.ifExists());
                return SystemCall.of("drop_function", fields);
              });
    }
    if (parsed instanceof DescribeFunction describe) {
      // Spark describes its own functions.
      return ours(describe.child())
          .filter(name -> load(name).isPresent())
          .map(name -> SystemCall.of("describe_function", fields(name)));
    }
    return Optional.empty();
  }

  private static Map<String, Object> definition(QualifiedName name, CreateUserDefinedFunction create) {
    if (create.isTableFunc() || create.exprText().isEmpty()) {
      throw new UnsupportedOperationException(
          "CREATE FUNCTION " + name + ": a function of a catalog returns one value of an expression, not the rows of a query");
    }
    List<Map<String, Object>> params = new ArrayList<>();
    if (create.inputParamText().isDefined()) {
      for (StructField field : StructType.fromDDL(create.inputParamText().get()).fields()) {
        Map<String, Object> param = new HashMap<>();
        param.put("name", field.name());
        param.put("type", field.dataType().json());
        param.put("comment", field.getComment().isDefined() ? field.getComment().get() : null);
        params.add(param);
      }
    }
    if (create.returnTypeText().isBlank()) {
      throw new UnsupportedOperationException("CREATE FUNCTION " + name + ": write RETURNS with the type of the result");
    }
    Map<String, Object> fields = fields(name);
    fields.put("params", params);
    fields.put("result", DataType.fromDDL(create.returnTypeText()).json());
    fields.put("sql", create.exprText().get());
    fields.put("comment", create.comment().isDefined() ? create.comment().get() : null);
    Option<Object> deterministic = create.isDeterministic();
    fields.put("deterministic", deterministic.isEmpty() || (Boolean) deterministic.get());
    fields.put("ifNotExists", create.ignoreIfExists());
    fields.put("replace", create.replace());
    return fields;
  }

  /** The name of a function in a catalog of ours with functions of its own. */
  private static Optional<QualifiedName> ours(LogicalPlan named) {
    Seq<String> parts;
    if (named instanceof UnresolvedIdentifier identifier) {
      parts = identifier.nameParts();
    } else if (named instanceof UnresolvedFunctionName function) {
      parts = function.multipartIdentifier();
    } else {
      return Optional.empty();
    }
    return CatalogRegistry.ofActiveSession()
        .ours(CollectionConverters.asJava(parts))
        .filter(name -> !name.catalog().hasForeignTables());
  }

  private static Map<String, Object> fields(QualifiedName name) {
    Map<String, Object> fields = new HashMap<>();
    fields.put("name", name.parts());
    return fields;
  }

  private static Optional<PlannedFunction> load(QualifiedName name) {
    return CatalogFunctions.load(name.catalog().reference(), name.database(), name.name());
  }

  private static void create(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    Map<String, Object> definition = new HashMap<>(fields);
    definition.remove("name");
    try {
      CatalogFunctions.create(
          name.catalog().reference(), name.database(), name.name(), JSON.writeValueAsString(definition));
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void drop(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    CatalogFunctions.drop(
        name.catalog().reference(), name.database(), name.name(), (Boolean) fields.get("ifExists"));
  }

  private static List<InternalRow> describe(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    PlannedFunction function =
        load(name).orElseThrow(() -> new IllegalArgumentException("There is no function " + name));
    List<InternalRow> rows = new ArrayList<>();
    for (String line : function.lines()) {
      rows.add(new GenericInternalRow(new Object[] {UTF8String.fromString(line)}));
    }
    return rows;
  }

  @SuppressWarnings("unchecked")
  private static QualifiedName name(Map<String, Object> fields) {
    return CatalogRegistry.ofActiveSession().ours((List<String>) fields.get("name")).orElseThrow();
  }
}
