"""Scans of Iceberg tables that a REST catalog plans for its clients.

Read conditions.py (filters in JSON), partitions.py (what a filter means for a partition), task_json.py (files and tasks
in JSON), then pages.py (a scan becomes pages of tasks). Source: Iceberg's REST specification, "planTableScan".
"""
