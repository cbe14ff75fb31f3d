"""The optimizer's state for users: for its commands, for Spark, and in the system table of a catalog.

`status` reads only the journal; `explanation` measures a table again. Nothing here changes a
table: requests are added to the journal, and the scheduler carries them out.
"""
