from __future__ import annotations

from streams_recovery.config.fields import ConnectionId, Section, Switch


class Spark(Section):
    """Where records are moved, by the id of an Airflow connection. ``allow_insecure_rpc`` lets driver and workers of a cluster talk unauthenticated and
    unencrypted.
    """

    connection: ConnectionId = "spark_default"
    allow_insecure_rpc: Switch = False
