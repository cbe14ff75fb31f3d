"""Procedures, `CALL lake.sys.name(…)`: each is declared as data, with a function that carries it out.

Names, arguments and results are Paimon's (documentation page `spark/procedures`). Read `procedure` (what one is) and
`registry` (all of them), then any; `compaction` and `ingestion_rounds` are those that run jobs.
"""
