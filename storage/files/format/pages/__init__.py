"""Parts of Parquet files that are smaller than a row group: the index of pages, and reads of some pages.

Read `footer` (which row groups can match) and `index` (where pages are), then `selection` (which rows are needed) with
`reading` and `values`. `compact` is Thrift's encoding of all metadata.
"""
