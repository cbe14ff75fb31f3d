"""One file: data files and their formats, the indexes beside them, deletion vectors."""
