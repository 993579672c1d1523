"""``python -m embedded.preloaded scheduler``: an Airflow command in a process that has imported all that the DAG files import.

Airflow's executor and its DAG processor fork a process for every task and every file. Each would spend two seconds of processor time on the same
imports; forked from a process that has them it starts with them.
"""

from __future__ import annotations

import importlib
import pkgutil

from airflow.__main__ import main

from streams_recovery import operators


def preload() -> None:
    """Import every module of operators, and what they import."""
    for module in pkgutil.iter_modules(operators.__path__, f"{operators.__name__}."):
        importlib.import_module(module.name)


if __name__ == "__main__":
    preload()
    main()
