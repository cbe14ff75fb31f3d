"""Answers and estimates from metadata alone, without reading rows."""
