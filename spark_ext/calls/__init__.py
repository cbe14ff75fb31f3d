"""The calls of planner.thrift, by what they are about; `interbed.spark_ext.process.planner` puts them together."""
