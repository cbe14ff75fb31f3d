package interbed.spark.write;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The commit message of one task, in Python's encoding. */
record TaskCommitMessage(byte[] bytes) implements WriterCommitMessage {}
