"""``python -m streams_recovery``."""

from streams_recovery.cli.main import run

run()
