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

/** Sends the commit of one job, again to another planner when one is lost, and remembers whether its outcome is known. */
final class CommitSender {
  private static final int ATTEMPTS = 2;

  // Set once the commit was sent and its outcome is not known: then no file may be deleted.
  private volatile boolean outcomeUnknown;

  /** The question has to be one that may be asked again, since a job commits once however often it is sent. */
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
      // Tasks that did not finish have none when a job is aborted.
      if (Objects.nonNull(message)) {
        committables.add(ByteBuffer.wrap(((TaskCommitMessage) message).bytes()));
      }
    }
    return committables;
  }
}
