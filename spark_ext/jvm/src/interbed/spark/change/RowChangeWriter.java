package interbed.spark.change;

import interbed.spark.write.ArrowTaskWriter;
import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/** Sends the changes of one task to Python, each as a row with its kind. */
final class RowChangeWriter implements DeltaWriter<InternalRow> {
  private static final byte INSERT = 0;
  private static final byte UPDATE_AFTER = 2;
  private static final byte DELETE = 3;

  private final ArrowTaskWriter rows;
  private final RowChangeLayout layout;
  private final UpdateCheck check;
  // Reused for each row: the Arrow writer copies the values.
  private final GenericInternalRow sent;

  RowChangeWriter(ArrowTaskWriter rows, RowChangeLayout layout, UpdateCheck check) {
    this.rows = rows;
    this.layout = layout;
    this.check = check;
    sent = new GenericInternalRow(layout.sent().length());
  }

  @Override
  public void delete(InternalRow metadata, InternalRow id) throws IOException {
    InternalRow whole = wholeRow(metadata);
    for (int i = 0; i < sent.numFields(); i++) {
      if (layout.fromId()[i] >= 0) {
        sent.update(i, id.get(layout.fromId()[i], layout.type(i)));
      } else if (metadata != null && layout.fromMetadata()[i] >= 0) {
        sent.update(i, metadata.get(layout.fromMetadata()[i], layout.type(i)));
      } else if (whole != null && i < layout.tableColumns()) {
        sent.update(i, whole.get(i, layout.type(i)));
      } else {
        sent.update(i, null);
      }
    }
    checkStoredKey(metadata);
    send(DELETE);
  }

  /** Refuses the deletion of a key that is stored without the blanks that Spark adds: the row would remain. */
  private void checkStoredKey(InternalRow metadata) {
    for (int i = 0; i < layout.keyColumns().length; i++) {
      int place = layout.storedKeys()[i];
      if (place < 0 || metadata == null || metadata.isNullAt(place)) {
        continue;
      }
      UTF8String stored = metadata.getUTF8String(place);
      Object key = sent.get(layout.keyColumns()[i], layout.type(layout.keyColumns()[i]));
      if (!stored.equals(key)) {
        throw new UnsupportedOperationException(
            "The row with '"
                + stored
                + "' in the primary key column '"
                + layout.sent().apply(layout.keyColumns()[i]).name()
                + "' can't be deleted by Spark: another writer has stored it without the blanks at its end, and with the blanks "
                + "that Spark adds it is another key. Nothing was changed; delete it by `interbed sql`.");
      }
    }
  }

  @Override
  public void update(InternalRow metadata, InternalRow id, InternalRow row) throws IOException {
    checkKey(id, row);
    InternalRow before = wholeRow(metadata);
    if (before != null) {
      check.check(before, row);
    }
    copy(row);
    for (int column : layout.keyColumns()) {
      // A CHAR may be stored without the blanks of the new value.
      sent.update(column, id.get(layout.fromId()[column], layout.type(column)));
    }
    for (int i = layout.tableColumns(); i < sent.numFields(); i++) {
      if (layout.fromId()[i] >= 0) {
        sent.update(i, id.get(layout.fromId()[i], layout.type(i)));
      }
    }
    send(UPDATE_AFTER);
  }

  @Override
  public void reinsert(InternalRow metadata, InternalRow row) throws IOException {
    // The new row of an update: its nulls are values, no missing columns.
    copy(row);
    int rowId = layout.rowIdColumn();
    if (rowId >= 0) {
      sent.update(rowId, metadata.get(layout.fromMetadata()[rowId], layout.type(rowId)));
    }
    send(UPDATE_AFTER);
  }

  @Override
  public void insert(InternalRow row) throws IOException {
    send(row, INSERT);
  }

  /** The old row if it is sent; otherwise null. */
  private InternalRow wholeRow(InternalRow metadata) {
    return metadata == null || layout.wholeRow() < 0
        ? null
        : metadata.getStruct(layout.wholeRow(), layout.tableColumns());
  }

  /** Refuses changes of a key, after which the old row would remain. */
  private void checkKey(InternalRow id, InternalRow row) {
    for (int i = 0; i < layout.keyColumns().length; i++) {
      int column = layout.keyColumns()[i];
      DataType type = layout.type(column);
      Object before = id.get(layout.fromId()[column], type);
      Object after = row.get(column, type);
      if (!isSame(before, after, layout.charKeys()[i])) {
        throw new UnsupportedOperationException(
            "The primary key column '"
                + layout.sent().apply(column).name()
                + "' can't be updated (from "
                + before
                + " to "
                + after
                + "); insert the row under its new key and delete the old one");
      }
    }
  }

  private static boolean isSame(Object before, Object after, boolean isChar) {
    if (before instanceof byte[] bytes && after instanceof byte[] others) {
      return Arrays.equals(bytes, others);
    }
    return isChar && before instanceof UTF8String text && after instanceof UTF8String other
        ? text.trimRight().equals(other.trimRight())
        : before.equals(after);
  }

  private void send(InternalRow row, byte kind) throws IOException {
    copy(row);
    send(kind);
  }

  private void copy(InternalRow row) {
    for (int i = 0; i < layout.tableColumns(); i++) {
      sent.update(i, row.get(i, layout.type(i)));
    }
    for (int i = layout.tableColumns(); i < sent.numFields(); i++) {
      sent.update(i, null);
    }
  }

  private void send(byte kind) throws IOException {
    sent.update(layout.tableColumns(), kind);
    rows.write(sent);
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    return rows.commit();
  }

  @Override
  public void abort() {
    rows.abort();
  }

  @Override
  public void close() {
    rows.close();
  }
}
