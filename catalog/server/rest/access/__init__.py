"""Roles and grants by REST, below `/interbed/v1/access`: messages.py has the JSON, routes.py the routes.

docs/access-openapi.yaml is their OpenAPI document.
"""
