"""The only module that Airflow's plugin loader executes (see .airflowignore beside it).

It registers the package under a name, so that ``airflow plugins`` shows whether a component of the installation sees it. It adds nothing
to Airflow yet and imports nothing of the package: every Airflow process runs this file when it starts.
"""

from __future__ import annotations

from airflow.sdk.plugins_manager import AirflowPlugin


class StreamsRecoveryPlugin(AirflowPlugin):
    """Savepoints and recovery of Kafka Streams applications."""

    name = "streams_recovery_plugin"
