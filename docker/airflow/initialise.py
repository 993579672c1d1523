"""Brings Airflow's database up to date and writes the password of its one user. Safe to run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PASSWORDS = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"


def write_password(file: Path, password: str) -> None:
    """For the API server's user only. Replaced in one step: the server may read it meanwhile."""
    beside = file.with_name(f".{file.name}")
    beside.touch(mode=0o600)
    beside.write_text(json.dumps({"admin": password}))
    beside.replace(file)


def main() -> int:
    """Migrate, then write the password."""
    migrated = subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=False)
    if migrated.returncode:
        return migrated.returncode
    write_password(Path(os.environ[PASSWORDS]), os.environ["AIRFLOW_ADMIN_PASSWORD"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
