"""Delegation tokens, as Hive's metastores issue them to Spark and HiveServer2 for the processes of a job.

Read hadoop_token.py (the bytes of a token), records.py (stored values and their repository), rules.py (lifetimes,
names, proxy users), then tokens.py, which issues, renews, cancels and verifies. Clients present a token by the SASL
mechanism DIGEST-MD5 (digest_md5.py).
"""
