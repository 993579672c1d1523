"""The assets of this project, in one module: two definitions of one URI under different names would disable each other.

No URI names a broker or a bucket. Those are in connections, and a DAG file asks no connection.
"""

from __future__ import annotations

from typing import Final

from airflow.sdk import Asset, AssetAlias

from streams_recovery.config.model import ApplicationConfig

_GROUP: Final = "streams-recovery"
# For DAGs that are told the application when they run.
SAVEPOINTS: Final = AssetAlias(name="streams-recovery/savepoints", group=_GROUP)
RESTORES: Final = AssetAlias(name="streams-recovery/restores", group=_GROUP)


def savepoints_of(application_name: str) -> Asset:
    """Gets an event for every savepoint of the application. A DAG scheduled on it runs after each of them."""
    return _asset("savepoints", application_name)


def restores_of(application_name: str) -> Asset:
    """Gets an event for every restore of the application that is finished."""
    return _asset("restores", application_name)


def topics_of(config: ApplicationConfig) -> list[Asset]:
    """The topics that the application reads, by the id of the connection to their cluster. Nothing here makes events for them."""
    return [_asset("kafka", f"{config.source.connection}/{topic}") for topic in (*config.topics.inputs, *config.topics.globals)]


def _asset(kind: str, name: str) -> Asset:
    return Asset(name=f"{kind}/{name}", uri=f"streams-recovery://{kind}/{name}", group=_GROUP)
