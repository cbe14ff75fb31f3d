package interbed.spark.write;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** What one task wrote, in Python's encoding. */
record TaskCommitMessage(byte[] bytes) implements WriterCommitMessage {}
