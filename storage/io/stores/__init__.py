"""Object stores: their objects, how requests are made, repeated and counted, and what options say of them.

Read `file_io` (the FileIO), `objects` (single steps), `writes`, `requests` (obstore's functions) with `tally` and
`errors`. Options go from `options`, `aws_keys` and `azure` by `settings` to `values`; `hadoop_settings` are for readers
in a JVM.
"""
