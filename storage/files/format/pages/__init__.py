"""Parts of Parquet files that are smaller than a row group: the index of pages, and reading some of them."""
