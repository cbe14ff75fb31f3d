"""The commands that work on catalogs and tables; `interbed.cli` puts them together."""
