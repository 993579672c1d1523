"""The command that says where everything lies."""

from __future__ import annotations

from streams_recovery.cli.screen import AsJson, line, print_json
from streams_recovery.core.project_files import config_directory, project_files


def paths(*, as_json: AsJson = False) -> None:
    """Where DAGs, Spark jobs and example configurations are, and where the configurations of your applications are looked for."""
    files = project_files()
    found = {
        "dags": str(files.dags),
        "jobs": str(files.jobs),
        "examples": str(files.configs),
        "configurations": str(config_directory()),
    }
    if as_json:
        print_json(found)
        return
    for name, path in found.items():
        line(f"{name:<15} {path}")
