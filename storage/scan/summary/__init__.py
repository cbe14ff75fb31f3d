"""Answers and estimates from metadata alone, without reading rows.

`aggregates` gives exact answers (COUNT, MIN, MAX, the files of a top n); `estimate` gives an optimizer row counts,
sizes and column statistics.
"""
