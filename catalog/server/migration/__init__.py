"""Moving in: copy, compare and export the metadata of metastores. Directories and files of tables are never touched."""
