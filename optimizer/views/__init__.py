"""What people see of the optimizer, whoever asks: its commands, Spark, and the system table of a catalog.

`status` and `processes` come from the journal alone; `explanation` and `dry_run` measure a table anew; `place` says
where the journal of a catalog is. Nothing here changes a table, and what `asking` leaves in the journal is for the
scheduler to do.
"""
