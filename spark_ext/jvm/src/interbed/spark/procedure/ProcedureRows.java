package interbed.spark.procedure;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** The rows that a procedure returned. */
record ProcedureRows(StructType readSchema, InternalRow[] rows) implements LocalScan {}
