"""Object stores: their objects, how requests are made, repeated and counted, and what options say of them.

Read `file_io` (the FileIO), `objects` (single steps), `writes`, `requests` (obstore's functions, counts and
errors). Options go from `options` by `azure` and `settings` to StoreSettings.
"""
