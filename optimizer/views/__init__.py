"""What users see of the optimizer by its commands, in Spark, and in the system table of a catalog.

`status` and `processes_table` read the journal alone; `explanation` measures a table again. Nothing here changes a
table: requests are left in the journal, and the scheduler carries them out.
"""
