"""The commands that work on catalogs and tables; `interbed.cli` puts them together.

Start with group.py (the catalog that a command works on), then table.py, whose commands are in define.py, describe.py,
rows.py, maintenance.py and version.py; catalog.py, sql.py and simulate.py are commands of their own. forms/
reads and writes rows, statements/ runs SQL that changes them.
"""
