package interbed.spark.planner;

/** Marks exceptions after which a statement may be analysed and run again: nothing was changed. */
public interface RetryableException {}
