"""The files beside the package: DAGs, Spark jobs and example configurations.

In a checkout they are folders at the top of the project. The wheel carries the same folders inside the package, below ``project``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streams_recovery.core.errors import ConfigInvalid

HOME: Final = "STREAMS_RECOVERY_HOME"
DIRECTORY: Final = "STREAMS_RECOVERY_CONFIG_DIR"
# The folders of the project that the wheel carries, as pyproject.toml maps them.
CARRIED: Final = ("dags", "spark_jobs", "include")
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_INSTALLED: Final = _PACKAGE / "project"


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The folders below ``root``."""

    root: Path

    @property
    def dags(self) -> Path:
        return self.root / "dags"

    @property
    def jobs(self) -> Path:
        """Programs for spark-submit."""
        return self.root / "spark_jobs"

    @property
    def configs(self) -> Path:
        """Example configurations, and the schema of all of them. In a checkout also where applications are configured."""
        return self.root / "include" / "configs"


def project_files(environment: Mapping[str, str] = os.environ) -> ProjectFiles:
    """The files below what ``STREAMS_RECOVERY_HOME`` names, else those that came with this package.

    Raises ``ConfigInvalid`` where the Spark jobs are not there.
    """
    named = environment.get(HOME)
    found = ProjectFiles(Path(named)) if named else own_files()
    if not (found.jobs / "backup.py").is_file():
        raise ConfigInvalid(
            f"{found.root} does not hold spark_jobs",
            next_step=f"unset {HOME}, or set it to the directory of the project that holds spark_jobs",
            path=str(found.root),
        )
    return found


def config_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory that STREAMS_RECOVERY_CONFIG_DIR names, else ``include/configs``: of the checkout, or for an installed package of Airflow's home."""
    if named := environment.get(DIRECTORY):
        return Path(named)
    if not is_installed():
        return own_files().configs
    # The examples in a wheel are no configuration: else applications that do not exist would appear in Airflow. The default home is Airflow's own.
    return Path(environment.get("AIRFLOW_HOME") or "~/airflow").expanduser() / "include" / "configs"


def own_files() -> ProjectFiles:
    """The files that came with this package."""
    return ProjectFiles(_INSTALLED if is_installed() else _PACKAGE.parents[1])


def is_installed() -> bool:
    """True for the package of a wheel, False for that of a checkout."""
    return _INSTALLED.is_dir()
