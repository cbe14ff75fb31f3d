package interbed.spark.catalog;

import interbed.spark.thrift.ChangeKind;
import interbed.spark.thrift.CreateTable;
import interbed.spark.thrift.PartitionTransform;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** Translates Spark's descriptions of tables and changes to planner.thrift's; it decides nothing except for time zones. */
public final class Translation {
  private Translation() {}

  public static CreateTable toThrift(Column[] columns, Transform[] partitioning, Map<String, String> properties) {
    List<PartitionTransform> transforms = Arrays.stream(partitioning).map(Translation::toThrift).toList();
    // The struct has comments and defaults as metadata, in Spark's own form.
    StructType struct = DefaultLiterals.withOffsets(CatalogV2Util.v2ColumnsToStructType(columns));
    return new CreateTable(struct.json(), transforms, properties);
  }

  private static PartitionTransform toThrift(Transform transform) {
    PartitionTransform translated = new PartitionTransform(transform.name(), new ArrayList<>());
    for (Expression argument : transform.arguments()) {
      if (argument instanceof NamedReference reference) {
        translated.addToColumns(String.join(".", reference.fieldNames()));
      } else if (argument instanceof Literal<?> literal && literal.value() instanceof Integer count) {
        translated.setBucketCount(count);
      }
    }
    return translated;
  }

  public static List<interbed.spark.thrift.NamespaceChange> toThrift(NamespaceChange[] changes) {
    List<interbed.spark.thrift.NamespaceChange> translated = new ArrayList<>();
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty set) {
        translated.add(new interbed.spark.thrift.NamespaceChange(set.property()).setValue(set.value()));
      } else if (change instanceof NamespaceChange.RemoveProperty remove) {
        translated.add(new interbed.spark.thrift.NamespaceChange(remove.property()));
      } else {
        throw new UnsupportedOperationException("interbed does not know the namespace change " + change);
      }
    }
    return translated;
  }

  public static List<interbed.spark.thrift.TableChange> toThrift(TableChange[] changes) {
    return Arrays.stream(changes).map(Translation::toThrift).toList();
  }

  private static interbed.spark.thrift.TableChange toThrift(TableChange change) {
    if (change instanceof TableChange.SetProperty set) {
      return of(ChangeKind.SET_PROPERTY, set.property()).setValue(set.value());
    }
    if (change instanceof TableChange.RemoveProperty remove) {
      return of(ChangeKind.REMOVE_PROPERTY, remove.property());
    }
    if (change instanceof TableChange.AddColumn add) {
      interbed.spark.thrift.TableChange translated =
          of(ChangeKind.ADD_COLUMN, add.fieldNames()).setValue(add.dataType().json()).setNullable(add.isNullable());
      translated.setComment(add.comment());
      if (add.defaultValue() != null) {
        translated.setDefaultValue(add.defaultValue().getSql());
      }
      return at(translated, add.position());
    }
    if (change instanceof TableChange.DeleteColumn delete) {
      return of(ChangeKind.DROP_COLUMN, delete.fieldNames()).setIfExists(delete.ifExists());
    }
    if (change instanceof TableChange.RenameColumn rename) {
      return of(ChangeKind.RENAME_COLUMN, rename.fieldNames()).setValue(rename.newName());
    }
    if (change instanceof TableChange.UpdateColumnType update) {
      return of(ChangeKind.UPDATE_COLUMN_TYPE, update.fieldNames()).setValue(update.newDataType().json());
    }
    if (change instanceof TableChange.UpdateColumnNullability update) {
      return of(ChangeKind.UPDATE_COLUMN_NULLABILITY, update.fieldNames()).setNullable(update.nullable());
    }
    if (change instanceof TableChange.UpdateColumnComment update) {
      return of(ChangeKind.UPDATE_COLUMN_COMMENT, update.fieldNames()).setValue(update.newComment());
    }
    if (change instanceof TableChange.UpdateColumnPosition update) {
      return at(of(ChangeKind.UPDATE_COLUMN_POSITION, update.fieldNames()), update.position());
    }
    if (change instanceof TableChange.UpdateColumnDefaultValue update) {
      return of(ChangeKind.UPDATE_COLUMN_DEFAULT, update.fieldNames()).setValue(DefaultLiterals.withOffsets(update.newDefaultValue()));
    }
    // Includes constraints, whose classes Spark 4.0 lacks: they would not be enforced, and keys are set at creation.
    throw new UnsupportedOperationException(
        "Tables of interbed do not take the change " + change.getClass().getSimpleName());
  }

  private static interbed.spark.thrift.TableChange of(ChangeKind kind, String... path) {
    return new interbed.spark.thrift.TableChange(kind, Arrays.asList(path));
  }

  private static interbed.spark.thrift.TableChange at(
      interbed.spark.thrift.TableChange change, TableChange.ColumnPosition position) {
    if (position instanceof TableChange.After after) {
      return change.setPosition("AFTER").setAfter(after.column());
    }
    return position == null ? change : change.setPosition("FIRST");
  }
}
