"""The package as a plugin of Airflow: by the entry point ``airflow.plugins`` where it is installed, else by ``plugins/streams_recovery_plugin.py``.

It registers the package under a name, so that ``airflow plugins`` shows whether a component of the installation sees it. It imports nothing else of the
package: every Airflow process runs this file when it starts, and only the API server needs more.
"""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk.plugins_manager import AirflowPlugin


def early_answers(app: Any) -> Any:
    """See ``streams_recovery.ui.early_answers``."""
    from airflow.configuration import conf  # noqa: PLC0415  # see above

    from streams_recovery.ui.early_answers import EarlyAnswers  # noqa: PLC0415

    return EarlyAnswers(app, heartbeat_seconds=conf.getfloat("workers", "min_heartbeat_interval"))


class StreamsRecoveryPlugin(AirflowPlugin):
    """Savepoints and recovery of Kafka Streams applications."""

    name = "streams_recovery_plugin"
    fastapi_root_middlewares: ClassVar[list[Any]] = [{"name": "early answers to approvals", "middleware": early_answers}]  # type: ignore[misc]  # Airflow declares it for instances
