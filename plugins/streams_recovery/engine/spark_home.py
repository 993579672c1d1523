"""The Spark that submits jobs."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streams_recovery.core.errors import ConfigInvalid

SPARK_HOME: Final = "STREAMS_RECOVERY_SPARK_HOME"
_VERSIONED: Final = "spark-core_*.jar"


def find_spark_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory that ``STREAMS_RECOVERY_SPARK_HOME`` names, else the one of the pyspark package.

    Raises ``ConfigInvalid`` when there is none, or when the one that is named has another version than the pyspark package: its JVM and the driver's
    Python would not understand each other.
    """
    installed, named = installed_spark(), environment.get(SPARK_HOME)
    if not named:
        return installed
    home = Path(named)
    wanted, found = _version(installed), _version(home)
    if found != wanted or not (home / "bin" / "spark-submit").exists():
        raise ConfigInvalid(
            f"{SPARK_HOME} is {home}, which has {', '.join(found) or 'no Spark'}; the pyspark package has {', '.join(wanted)}",
            next_step=f"name a Spark of the same version in {SPARK_HOME}, or do not set it",
            path=named,
        )
    return home


def installed_spark() -> Path:
    """The Spark that the pyspark package brings. Raises ``ConfigInvalid`` when it is not installed."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigInvalid("pyspark is not installed in this environment", next_step="install requirements.txt here")
    return Path(found.origin).parent


def _version(home: Path) -> list[str]:
    return sorted(jar.name for jar in (home / "jars").glob(_VERSIONED))
