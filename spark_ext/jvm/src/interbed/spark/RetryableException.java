package interbed.spark;

/** Marks what a statement may answer by being run again from its analysis on: nothing was changed. */
interface RetryableException {}
