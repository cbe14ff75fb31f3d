"""The directories of databases and tables: what is kept beside the tables, and how whole directories come and go."""
