"""The calls of planner.thrift, by what they are about; `interbed.spark_ext.planner` puts them together."""
