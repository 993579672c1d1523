"""Brings Airflow's database up to date and writes the secrets that are read from files. Safe to run again, also with other secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PASSWORDS = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"


def write_private(file: Path, text: str) -> None:
    """A file for its owner only. Replaced in one step: somebody may read it meanwhile."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    beside = file.with_name(f".{file.name}")
    beside.unlink(missing_ok=True)
    beside.touch(mode=0o600)
    beside.write_text(text)
    beside.replace(file)


def write_secrets(environment: dict[str, str]) -> None:
    """The API server's user; the settings of Spark's drivers with the secret that they share with master and workers; the token of the example."""
    write_private(Path(environment[PASSWORDS]), json.dumps({"admin": environment["AIRFLOW_ADMIN_PASSWORD"]}))
    settings = Path(environment["SPARK_SETTINGS"]).read_text()
    write_private(
        Path(environment["SPARK_CONF_DIR"]) / "spark-defaults.conf",
        f"{settings}spark.authenticate.secret {environment['SPARK_RPC_SECRET']}\n",
    )
    write_private(Path(environment["ORDER_PROCESSOR_TOKEN_FILE"]), environment["ORDER_PROCESSOR_TOKEN"])


def main() -> int:
    """Migrate, then write the secrets."""
    migrated = subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=False)
    if migrated.returncode:
        return migrated.returncode
    write_secrets(dict(os.environ))
    return 0


if __name__ == "__main__":
    sys.exit(main())
