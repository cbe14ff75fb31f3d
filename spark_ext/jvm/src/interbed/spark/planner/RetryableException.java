package interbed.spark.planner;

/** Marks what a statement may answer by being run again from its analysis on: nothing was changed. */
public interface RetryableException {}
