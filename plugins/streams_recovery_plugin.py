"""The only module that Airflow's plugin loader executes (see .airflowignore beside it).

Where the package is installed, Airflow finds the plugin by its entry point, and a second one of the same name would be an error.
"""

from __future__ import annotations

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="streams_recovery"):
    from streams_recovery.provider.plugin import StreamsRecoveryPlugin

    __all__ = ["StreamsRecoveryPlugin"]
