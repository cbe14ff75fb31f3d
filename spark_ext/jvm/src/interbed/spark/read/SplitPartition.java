package interbed.spark.read;

import interbed.spark.thrift.NativeFile;
import interbed.spark.thrift.ScanSplit;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** A split on its way to an executor; without native files it is read by Python. */
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
