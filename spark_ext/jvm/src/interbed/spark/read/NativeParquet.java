package interbed.spark.read;

import java.io.Serializable;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions;
import org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.PredicateUtils;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** Spark's vectorised Parquet reader, for files whose rows are the table's rows unchanged. */
final class NativeParquet implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Keys of Hadoop's configuration that Spark's own file source sets for the reader. */
  private static final String[] SETTINGS = {
    "spark.sql.session.timeZone",
    "spark.sql.optimizer.nestedSchemaPruning.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.int96AsTimestamp",
    "spark.sql.parquet.inferTimestampNTZ.enabled",
    "spark.sql.legacy.parquet.nanosAsLong",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.ignoreVariantAnnotation",
  };

  /**
   * Options that precede the session's settings. Dates and timestamps of the format are in the proleptic Gregorian calendar, so that
   * old ones are not rebased. A snapshot names its files, so that a missing or damaged one is an error whatever the session ignores.
   */
  private static final Map<String, String> OPTIONS =
      Map.of(
          "datetimeRebaseMode", "CORRECTED",
          "int96RebaseMode", "CORRECTED",
          "ignoreMissingFiles", "false",
          "ignoreCorruptFiles", "false");

  /** Spark's reader fills a column of this name with positions, as for `_metadata.row_index`. */
  private static final String POSITION = ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME();

  private static final FilePartition NO_FILES = new FilePartition(0, new PartitionedFile[0]);

  private final ParquetPartitionReaderFactory factory;

  private NativeParquet(ParquetPartitionReaderFactory factory) {
    this.factory = factory;
  }

  /**
   * A reader of these columns that skips row groups by the filters, or null when the session's settings disable Spark's columnar
   * reader. With `located` one more column has each row's position in its file. `hadoopSettings` are the plan's, null for none:
   * they are only in this reader's configuration, which is never shown.
   */
  static NativeParquet create(
      StructType tableSchema,
      StructType columns,
      Predicate[] filters,
      boolean located,
      Map<String, String> hadoopSettings) {
    StructType readSchema = located ? columns.add(POSITION, DataTypes.LongType, true) : columns;
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    SQLConf conf = session.sessionState().conf();
    Configuration hadoop = withoutCatalogs(session.sessionState().newHadoopConf());
    // Our files have checksums of their pages, which Parquet's reader verifies only with this setting.
    hadoop.setIfUnset("parquet.page.verify-checksum.enabled", "true");
    hadoop.set("parquet.read.support.class", ParquetReadSupport.class.getName());
    hadoop.set("org.apache.spark.sql.parquet.row.requested_schema", readSchema.json());
    hadoop.set("org.apache.spark.sql.parquet.row.attributes", readSchema.json());
    if (hadoopSettings != null) {
      hadoopSettings.forEach(hadoop::set);
    }
    for (String setting : SETTINGS) {
      try {
        hadoop.set(setting, conf.getConfString(setting));
      } catch (NoSuchElementException unknown) {
        // This version of Spark has no such setting, and its reader does not need it.
      }
    }
    Broadcast<SerializableConfiguration> shared =
        session
            .sparkContext()
            .broadcast(new SerializableConfiguration(hadoop), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
    ParquetPartitionReaderFactory factory =
        new ParquetPartitionReaderFactory(
            conf,
            shared,
            CharVarcharUtils.replaceCharVarcharWithStringInSchema(tableSchema),
            readSchema,
            new StructType(),
            filters(usable(filters, readSchema), conf),
            Option.empty(),
            new ParquetOptions(scala.collection.immutable.Map.from(CollectionConverters.asScala(OPTIONS)), conf));
    return factory.supportColumnarReads(NO_FILES) ? new NativeParquet(factory) : null;
  }

  /** The configuration without the options of catalogs: Spark copies all settings of the session, and secrets are among them. */
  private static Configuration withoutCatalogs(Configuration hadoop) {
    List<String> settings = new ArrayList<>();
    hadoop.forEach(setting -> settings.add(setting.getKey()));
    settings.stream().filter(key -> key.startsWith("spark.sql.catalog.")).forEach(hadoop::unset);
    return hadoop;
  }

  /**
   * The filters by which Spark's reader may skip row groups. It treats columns that are not read as null, and 0.0 and -0.0 as
   * different, unlike Spark's own comparison. It treats a name with a dot as the path of a nested field.
   */
  private static Predicate[] usable(Predicate[] filters, StructType readSchema) {
    return Arrays.stream(filters)
        .filter(
            filter ->
                Arrays.stream(filter.references()).allMatch(reference -> isUsable(reference.fieldNames(), readSchema)))
        .toArray(Predicate[]::new);
  }

  /**
   * The filters with the classes of java.time. The older ones, java.sql.Date and java.sql.Timestamp, use the Julian calendar
   * before 1582: they lack the 5th to 14th of October 1582, and the first years of an INT.
   */
  private static Filter[] filters(Predicate[] predicates, SQLConf conf) {
    SQLConf withJavaTime = conf.clone();
    withJavaTime.setConfString(SQLConf.DATETIME_JAVA8API_ENABLED().key(), "true");
    return SQLConf.withExistingConf(withJavaTime, () -> PredicateUtils.toV1(predicates));
  }

  private static boolean isUsable(String[] path, StructType readSchema) {
    Option<Object> index = readSchema.getFieldIndex(path[0]);
    if (path.length != 1 || path[0].contains(".") || index.isEmpty()) {
      return false;
    }
    DataType type = readSchema.apply((Integer) index.get()).dataType();
    return !(type instanceof FloatType) && !(type instanceof DoubleType);
  }

  PartitionReader<ColumnarBatch> open(SplitPartition split) {
    PartitionedFile[] files = new PartitionedFile[split.uris().length];
    for (int i = 0; i < files.length; i++) {
      files[i] = file(split, i);
    }
    return factory.createColumnarReader(new FilePartition(0, files));
  }

  /** Reads one file of the split. */
  PartitionReader<ColumnarBatch> openFile(SplitPartition split, int index) {
    return factory.createColumnarReader(new FilePartition(0, new PartitionedFile[] {file(split, index)}));
  }

  private static PartitionedFile file(SplitPartition split, int index) {
    long size = split.byteSizes()[index];
    return new PartitionedFile(
        InternalRow.empty(),
        SparkPath.fromUri(URI.create(split.uris()[index])),
        0,
        size,
        new String[0],
        0L,
        size,
        scala.collection.immutable.Map$.MODULE$.<String, Object>empty());
  }
}
