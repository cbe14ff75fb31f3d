package interbed.spark.function;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The bucket of a key: 32-bit Murmur3 (seed 42) over Paimon's BinaryRow of the bucket columns, modulo the bucket count.
 *
 * <p>A BinaryRow has a header byte (the row kind, here 0), a bit for each null, padded to 8 bytes, then 8 bytes for each field,
 * then a part of variable length in words of 8 bytes; all little-endian. Numbers lie in their 8 bytes; strings and bytes up to
 * 7 long too, with 0x80 | length in the last byte; longer ones in the variable part, with offset and size in the 8 bytes.
 * tests/golden/bucket_hash.json holds the values that this class and Python's interbed.storage.base.row.words must both give.
 */
public final class BucketHash {
  private static final int SEED = 42;
  private static final int HEADER_BITS = 8;
  private static final int WORD_BYTES = 8;
  private static final int INLINE_BYTES_MAX = 7;
  // Decimals of at most 18 digits fit into 8 bytes.
  private static final int COMPACT_DECIMAL_PRECISION_MAX = 18;
  private static final int LARGE_DECIMAL_BYTES = 16;

  private final int fieldCount;
  private final int nullBytes;
  private ByteBuffer row;
  private int end;

  /** A row of that number of fields, each to be set once. */
  BucketHash(int fieldCount) {
    this.fieldCount = fieldCount;
    nullBytes = nullBytes(fieldCount);
    end = nullBytes + fieldCount * WORD_BYTES;
    row = ByteBuffer.allocate(end).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static int nullBytes(int fieldCount) {
    return (fieldCount + HEADER_BITS + 63) / 64 * WORD_BYTES;
  }

  /** Marks the field as null. */
  void setNull(int field) {
    int bit = field + HEADER_BITS;
    row.put(bit / 8, (byte) (row.get(bit / 8) | 1 << bit % 8));
  }

  void setBoolean(int field, boolean value) {
    row.put(at(field), (byte) (value ? 1 : 0));
  }

  void setByte(int field, byte value) {
    row.put(at(field), value);
  }

  void setShort(int field, short value) {
    row.putShort(at(field), value);
  }

  void setInt(int field, int value) {
    row.putInt(at(field), value);
  }

  void setLong(int field, long value) {
    row.putLong(at(field), value);
  }

  void setFloat(int field, float value) {
    row.putInt(at(field), Float.floatToRawIntBits(value));
  }

  void setDouble(int field, double value) {
    row.putLong(at(field), Double.doubleToRawLongBits(value));
  }

  void setBytes(int field, byte[] value) {
    if (value.length <= INLINE_BYTES_MAX) {
      row.putLong(at(field), inlined(value));
    } else {
      int offset = extend((value.length + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES);
      row.put(offset, value);
      row.putLong(at(field), (long) offset << 32 | value.length);
    }
  }

  private static long inlined(byte[] value) {
    long word = (long) (value.length | 0x80) << 56;
    for (int i = 0; i < value.length; i++) {
      word |= (value[i] & 0xffL) << 8 * i;
    }
    return word;
  }

  /** A decimal of the column's precision; a null of a precision above 18 still takes its 16 bytes. */
  void setDecimal(int field, Decimal value, int precision) {
    if (precision <= COMPACT_DECIMAL_PRECISION_MAX) {
      if (value == null) {
        setNull(field);
      } else {
        row.putLong(at(field), value.toUnscaledLong());
      }
      return;
    }
    int offset = extend(LARGE_DECIMAL_BYTES);
    int size = 0;
    if (value == null) {
      setNull(field);
    } else {
      byte[] unscaled = value.toJavaBigDecimal().unscaledValue().toByteArray();
      row.put(offset, unscaled);
      size = unscaled.length;
    }
    row.putLong(at(field), (long) offset << 32 | size);
  }

  /** A timestamp of a precision above 3: milliseconds in the variable part, nanoseconds of the millisecond in place of a size. */
  void setTimestamp(int field, long micros) {
    int offset = extend(WORD_BYTES);
    row.putLong(offset, Math.floorDiv(micros, 1000L));
    row.putLong(at(field), (long) offset << 32 | Math.floorMod(micros, 1000L) * 1000L);
  }

  void setNullTimestamp(int field) {
    int offset = extend(WORD_BYTES);
    setNull(field);
    row.putLong(at(field), (long) offset << 32);
  }

  private int at(int field) {
    return nullBytes + field * WORD_BYTES;
  }

  private int extend(int bytes) {
    int offset = end;
    end += bytes;
    if (end > row.capacity()) {
      ByteBuffer larger = ByteBuffer.allocate(Math.max(end, row.capacity() * 2)).order(ByteOrder.LITTLE_ENDIAN);
      row = larger.put(0, row, 0, offset);
    }
    return offset;
  }

  int bucket(int bucketCount) {
    return bucketOf(hash(), bucketCount);
  }

  int hash() {
    int hash = SEED;
    for (int i = 0; i < end; i += Integer.BYTES) {
      hash = mixed(hash, row.getInt(i));
    }
    return finished(hash, end);
  }

  // Rows of one field whose 8 bytes hold all of it need no buffer.

  /** The bucket of a one-field row whose 8 bytes are these. */
  static int bucketOfWord(int bucketCount, long word) {
    int hash = mixed(mixed(SEED, 0), 0);
    hash = mixed(hash, (int) word);
    hash = mixed(hash, (int) (word >>> 32));
    return bucketOf(finished(hash, 2 * WORD_BYTES), bucketCount);
  }

  static int bucketOfBytes(int bucketCount, byte[] value) {
    if (value.length <= INLINE_BYTES_MAX) {
      return bucketOfWord(bucketCount, inlined(value));
    }
    BucketHash row = new BucketHash(1);
    row.setBytes(0, value);
    return row.bucket(bucketCount);
  }

  static int bucketOfString(int bucketCount, UTF8String value) {
    return bucketOfBytes(bucketCount, value.getBytes());
  }

  private static int bucketOf(int hash, int bucketCount) {
    return Math.abs(hash % bucketCount);
  }

  private static int mixed(int hash, int word) {
    return Integer.rotateLeft(hash ^ Integer.rotateLeft(word * 0xcc9e2d51, 15) * 0x1b873593, 13) * 5 + 0xe6546b64;
  }

  private static int finished(int hash, int lengthBytes) {
    int h = hash ^ lengthBytes;
    h = (h ^ h >>> 16) * 0x85ebca6b;
    h = (h ^ h >>> 13) * 0xc2b2ae35;
    return h ^ h >>> 16;
  }
}
