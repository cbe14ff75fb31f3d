package interbed.recorder;

import java.io.FileOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.apache.spark.SparkConf;
import org.apache.spark.serializer.DeserializationStream;
import org.apache.spark.serializer.JavaSerializer;
import org.apache.spark.serializer.SerializationStream;
import org.apache.spark.serializer.SerializerInstance;
import scala.reflect.ClassTag;

/** Spark's serializer, which also appends all bytes that it makes to a file. */
public final class RecordingSerializer extends JavaSerializer {
  private static final long serialVersionUID = 1L;

  private static OutputStream recorded;

  /** For the copies that tasks have. */
  public RecordingSerializer() {
    this(new SparkConf());
  }

  RecordingSerializer(SparkConf conf) {
    super(conf);
  }

  static synchronized void open(Path file) {
    try {
      recorded = new FileOutputStream(file.toFile(), true);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static synchronized void record(byte[] bytes) throws IOException {
    recorded.write(bytes);
    recorded.write('\n');
    recorded.flush();
  }

  @Override
  public SerializerInstance newInstance() {
    return new Recording(super.newInstance());
  }

  private static final class Recording extends SerializerInstance {
    private final SerializerInstance inner;

    Recording(SerializerInstance inner) {
      this.inner = inner;
    }

    @Override
    public <T> ByteBuffer serialize(T value, ClassTag<T> tag) {
      ByteBuffer made = inner.serialize(value, tag);
      byte[] bytes = new byte[made.remaining()];
      made.duplicate().get(bytes);
      try {
        record(bytes);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
      return made;
    }

    @Override
    public <T> T deserialize(ByteBuffer bytes, ClassTag<T> tag) {
      return inner.deserialize(bytes, tag);
    }

    @Override
    public <T> T deserialize(ByteBuffer bytes, ClassLoader loader, ClassTag<T> tag) {
      return inner.deserialize(bytes, loader, tag);
    }

    @Override
    public SerializationStream serializeStream(OutputStream stream) {
      return inner.serializeStream(new Copying(stream));
    }

    @Override
    public DeserializationStream deserializeStream(InputStream stream) {
      return inner.deserializeStream(stream);
    }
  }

  private static final class Copying extends FilterOutputStream {
    private final java.io.ByteArrayOutputStream copy = new java.io.ByteArrayOutputStream();

    Copying(OutputStream stream) {
      super(stream);
    }

    @Override
    public void write(int one) throws IOException {
      out.write(one);
      copy.write(one);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      out.write(bytes, offset, length);
      copy.write(bytes, offset, length);
    }

    @Override
    public void close() throws IOException {
      record(copy.toByteArray());
      super.close();
    }
  }
}
