"""The Python processes beside Spark: the planner on the driver, workers on the executors, and the daemon."""
