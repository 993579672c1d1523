"""The DAGs of this package as a bundle of Airflow."""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from streams_recovery.core.project_files import project_files


class RecoveryDagBundle(LocalDagBundle):
    """The DAG files that came with the package. It takes no ``path``, so a new version of the package needs no new configuration."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str(project_files().dags), **kwargs)
