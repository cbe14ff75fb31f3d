"""The commands that work on catalogs and tables. `interbed.cli` has the list of all commands.

Start with group.py (the catalog of a command), then table.py, whose commands are in define.py, describe.py,
maintenance.py and version.py. define.py also has `interbed catalog`, with the commands of functions.py; maintenance.py
also has `interbed compact` and `interbed simulate`. sql.py is `interbed sql`: sql_statements.py parses statements that
change rows and converts their values, sql_changes.py executes them. long_run.py has the
display and the metrics of commands that run for long. forms/ reads and writes rows.
"""
