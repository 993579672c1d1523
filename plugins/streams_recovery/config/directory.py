"""Finding the configured applications from wherever a DAG, a task or a terminal runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from streams_recovery.config.loader import Configurations, load_all, load_named, notifiers_of
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.monitor import Notify
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.project_files import is_installed, own_files

DIRECTORY = "STREAMS_RECOVERY_CONFIG_DIR"


def config_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """What STREAMS_RECOVERY_CONFIG_DIR names, else ``include/configs``: of the checkout, or for an installed package of Airflow's home."""
    if named := environment.get(DIRECTORY):
        return Path(named)
    # The examples that a wheel carries are no configuration: nobody's applications would appear in Airflow.
    return airflow_home(environment) / "include" / "configs" if is_installed() else own_files().configs


def airflow_home(environment: Mapping[str, str]) -> Path:
    """Where Airflow itself takes its home to be."""
    return Path(environment.get("AIRFLOW_HOME") or "~/airflow").expanduser()


def load_application(name: str, environment: Mapping[str, str] = os.environ) -> ApplicationConfig:
    """The application called ``name``. Raises ``NotFound`` and ``ConfigInvalid``."""
    return load_named(name, config_directory(environment), environment)


def configurations(environment: Mapping[str, str] = os.environ) -> Configurations:
    """Everything configured, what cannot be used included. Raises ``ConfigInvalid`` without a directory of configurations."""
    return load_all(config_directory(environment), environment)


def load_applications(environment: Mapping[str, str] = os.environ) -> dict[str, ApplicationConfig]:
    """Every application whose configuration can be used. Raises as ``configurations``."""
    return configurations(environment).applications


def broken_configurations(environment: Mapping[str, str] = os.environ) -> dict[str, ConfigInvalid]:
    """What is wrong with each configuration that cannot be used, by the name of its application."""
    return configurations(environment).broken


def broken_notifiers(name: str, environment: Mapping[str, str] = os.environ) -> tuple[Notify, ...]:
    """The notifiers that a configuration names although it cannot be used, as far as that section can be read."""
    return notifiers_of(name, config_directory(environment), environment)
