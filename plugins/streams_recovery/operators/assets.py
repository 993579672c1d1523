"""The assets of this project, in one module: two definitions of one URI under different names would disable each other."""

from __future__ import annotations

from airflow.sdk import Asset


def savepoints_of(application_name: str) -> Asset:
    """Gets an event for every savepoint of the application. A DAG scheduled on it runs after each of them."""
    return Asset(name=f"savepoints/{application_name}", uri=f"streams-recovery://savepoints/{application_name}", group="streams-recovery")
