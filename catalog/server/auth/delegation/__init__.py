"""Delegation tokens, as Hive's metastores issue them to Spark and HiveServer2 for the processes of a job.

Read hadoop_token.py (the bytes of a token), then tokens.py (stored values, lifetimes, names and proxy users, and how
tokens are issued, renewed, cancelled and verified). Clients present a token by the SASL mechanism DIGEST-MD5
(digest_md5.py).
"""
