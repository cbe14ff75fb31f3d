package interbed.spark.read;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** A position in a stream, in the planner's JSON, which Spark keeps in its checkpoint. */
final class StreamPosition extends Offset {
  private final String json;

  StreamPosition(String json) {
    this.json = json;
  }

  @Override
  public String json() {
    return json;
  }
}
