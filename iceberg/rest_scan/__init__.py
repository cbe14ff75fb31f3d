"""Scans of Iceberg tables that a REST catalog plans for its clients.

Read conditions.py (filters in JSON), task_json.py (files and tasks in JSON), then pages.py (a scan becomes pages of
tasks, by partition). Source: Iceberg's REST specification, "planTableScan".
"""
