"""Finding the configured applications from wherever a DAG, a task or a terminal runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from streams_recovery.config.loader import load_all, load_named
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid

DIRECTORY = "STREAMS_RECOVERY_CONFIG_DIR"


def config_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """What STREAMS_RECOVERY_CONFIG_DIR names, else ``include/configs`` of the project this package was checked out in."""
    named = environment.get(DIRECTORY)
    return Path(named) if named else Path(__file__).resolve().parents[3] / "include" / "configs"


def load_application(name: str, environment: Mapping[str, str] = os.environ) -> ApplicationConfig:
    """The application called ``name``. Raises ``NotFound`` and ``ConfigInvalid``."""
    return load_named(name, config_directory(environment), environment)


def load_applications(environment: Mapping[str, str] = os.environ) -> dict[str, ApplicationConfig]:
    """Every application whose configuration can be used. Raises ``ConfigInvalid`` without a directory of configurations."""
    return load_all(config_directory(environment), environment).applications


def broken_configurations(environment: Mapping[str, str] = os.environ) -> dict[str, ConfigInvalid]:
    """What is wrong with each configuration that cannot be used, by the name of its application."""
    return load_all(config_directory(environment), environment).broken
