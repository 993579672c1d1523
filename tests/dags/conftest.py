"""Airflow with an empty home of its own, set before anything imports it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
_HOME = tempfile.TemporaryDirectory(prefix="airflow-tests-")

os.environ.update(
    {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
)
