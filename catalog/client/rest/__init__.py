"""Paimon REST client: a catalog behind Paimon's REST interface (docs/static/rest-catalog-open-api.yaml of Paimon).

Read `catalog` first, then `client` (the calls), `http` (connections, retries, errors), `tokens` (authentication),
`commit` (the snapshots of a table) and `messages` (JSON of schemas, changes and views).
"""
