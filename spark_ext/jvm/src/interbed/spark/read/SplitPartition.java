package interbed.spark.read;

import interbed.spark.thrift.NativeFile;
import interbed.spark.thrift.ScanSplit;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** A split for an executor; without native files Python reads it. */
record SplitPartition(
    byte[] payload, String[] uris, long[] byteSizes, boolean hasDeletions, String[] hosts, long byteSize)
    implements InputPartition {
  static SplitPartition of(ScanSplit split) {
    List<NativeFile> files = split.getNativeFiles();
    return new SplitPartition(
        split.getPayload(),
        files.stream().map(NativeFile::getUri).toArray(String[]::new),
        files.stream().mapToLong(NativeFile::getByteSize).toArray(),
        split.isHasDeletions(),
        split.getPreferredHosts().toArray(String[]::new),
        split.getByteSize());
  }

  boolean isNative() {
    return uris.length > 0;
  }

  @Override
  public String[] preferredLocations() {
    return hosts;
  }
}
