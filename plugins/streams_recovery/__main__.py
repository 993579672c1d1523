"""``python -m streams_recovery``."""

from streams_recovery.cli.app import run

run()
