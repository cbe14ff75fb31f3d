"""Procedures, `CALL lake.sys.name(…)`: each is declared as data, with a function that carries it out.

Names, arguments and results are Paimon's (documentation page `spark/procedures`). Read `procedure` (the declarations)
and `registry` (the list of all), then any module; those of `compaction` and `ingestion_rounds` run jobs.
"""
