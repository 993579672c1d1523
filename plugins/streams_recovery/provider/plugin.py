"""The package as a plugin of Airflow: by the entry point ``airflow.plugins`` where it is installed, else by ``plugins/streams_recovery_plugin.py``.

It registers the package under a name, so that ``airflow plugins`` shows whether a component of the installation sees it, and the page *Recovery*. It imports
nothing else of the package: every Airflow process runs this file when it starts, and only the API server needs more.
"""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk.plugins_manager import AirflowPlugin


def early_answers(app: Any) -> Any:
    """See ``streams_recovery.ui.early_answers``."""
    from airflow.configuration import conf  # noqa: PLC0415  # see above

    from streams_recovery.ui.early_answers import EarlyAnswers  # noqa: PLC0415

    return EarlyAnswers(app, heartbeat_seconds=conf.getfloat("workers", "min_heartbeat_interval"))


class RecoveryPage:
    """The page, see ``streams_recovery.ui.app``. Built when the first request comes."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if self._app is None:
            from anyio import to_thread  # noqa: PLC0415  # see above

            from streams_recovery.ui.building import built  # noqa: PLC0415

            self._app = await to_thread.run_sync(built)
        await self._app(scope, receive, send)


class StreamsRecoveryPlugin(AirflowPlugin):
    """Savepoints and recovery of Kafka Streams applications."""

    name = "streams_recovery_plugin"
    fastapi_root_middlewares: ClassVar[list[Any]] = [{"name": "early answers to approvals", "middleware": early_answers}]  # type: ignore[misc]  # Airflow declares it for instances
    fastapi_apps: ClassVar[list[Any]] = [{"name": "streams recovery", "app": RecoveryPage(), "url_prefix": "/streams-recovery"}]  # type: ignore[misc]  # as above
    # Relative to Airflow's base address, which may have a path.
    external_views: ClassVar[list[Any]] = [  # type: ignore[misc]  # as above
        {"name": "Recovery", "href": "streams-recovery/", "url_route": "streams-recovery", "nav_top_level": True},
        {"name": "Recovery", "href": "streams-recovery/?dag={DAG_ID}", "url_route": "streams-recovery-dag", "destination": "dag"},
    ]
