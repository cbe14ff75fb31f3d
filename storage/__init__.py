"""The table format and its LSM engine, in Apache Paimon's on-disk format. It knows no catalog."""
