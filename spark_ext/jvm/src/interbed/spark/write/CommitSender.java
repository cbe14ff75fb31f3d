package interbed.spark.write;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerException;
import interbed.spark.planner.PlannerLostException;
import interbed.spark.thrift.ErrorKind;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Sends the commit of one job, again to another planner after a lost one, and records whether its outcome is known. */
final class CommitSender {
  private static final int ATTEMPTS = 2;

  // Set while the commit was sent and its outcome is unknown: no file may be deleted then.
  private volatile boolean outcomeUnknown;

  /** Sends a call that may be repeated: a job commits once, however often its commit is sent. */
  <T> T send(Planner.Question<T> commit) {
    for (int attempt = 1; ; attempt++) {
      try {
        return Planner.ask(commit);
      } catch (PlannerException error) {
        outcomeUnknown = outcomeUnknown || error.kind() == ErrorKind.COMMIT_STATE_UNKNOWN;
        throw error.translated();
      } catch (PlannerLostException error) {
        outcomeUnknown = true;
        if (attempt == ATTEMPTS) {
          throw error;
        }
      }
    }
  }

  boolean isOutcomeUnknown() {
    return outcomeUnknown;
  }

  static List<ByteBuffer> committables(WriterCommitMessage[] messages) {
    List<ByteBuffer> committables = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      // When a job is aborted, unfinished tasks have no message.
      if (Objects.nonNull(message)) {
        committables.add(ByteBuffer.wrap(((TaskCommitMessage) message).bytes()));
      }
    }
    return committables;
  }
}
