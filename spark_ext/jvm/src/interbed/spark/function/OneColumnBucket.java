package interbed.spark.function;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The bucket function for one column without nulls, in a class for each type: Spark finds the static method named invoke
 * by the types of its arguments and calls it from generated code, without a row in between.
 */
final class OneColumnBucket {
  private OneColumnBucket() {}

  /** Of INT and DATE. */
  public static final class OfInt extends RowBucket {
    private static final long serialVersionUID = 1L;

    OfInt(DataType key) {
      super(key);
    }

    public static int invoke(int bucketCount, int key) {
      return BucketHash.bucketOfWord(bucketCount, key & 0xffff_ffffL);
    }
  }

  /** Of BIGINT. */
  public static final class OfLong extends RowBucket {
    private static final long serialVersionUID = 1L;

    OfLong(DataType key) {
      super(key);
    }

    public static int invoke(int bucketCount, long key) {
      return BucketHash.bucketOfWord(bucketCount, key);
    }
  }

  /** Of SMALLINT. */
  public static final class OfShort extends RowBucket {
    private static final long serialVersionUID = 1L;

    OfShort(DataType key) {
      super(key);
    }

    public static int invoke(int bucketCount, short key) {
      return BucketHash.bucketOfWord(bucketCount, key & 0xffffL);
    }
  }

  /** Of TINYINT. */
  public static final class OfByte extends RowBucket {
    private static final long serialVersionUID = 1L;

    OfByte(DataType key) {
      super(key);
    }

    public static int invoke(int bucketCount, byte key) {
      return BucketHash.bucketOfWord(bucketCount, key & 0xffL);
    }
  }

  /** Of STRING, CHAR and VARCHAR. */
  public static final class OfString extends RowBucket {
    private static final long serialVersionUID = 1L;

    OfString(DataType key) {
      super(key);
    }

    public static int invoke(int bucketCount, UTF8String key) {
      return BucketHash.bucketOfString(bucketCount, key);
    }
  }
}
