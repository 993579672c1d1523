"""Puts a version of ``counter.py`` there and notes it: ``python deployer.py DIRECTORY VERSION``. There is no version ``missing``."""

from __future__ import annotations

import sys
from pathlib import Path

directory, version = Path(sys.argv[1]), sys.argv[2]
with (directory / "deployments").open("a") as log:
    log.write(f"{version} {'running' if (directory / 'started').exists() else 'down'}\n")
if version == "missing":
    sys.exit("no such version")
(directory / "version").write_text(version)
