"""The programs of an application without code: a file says whether it runs. ``python fleet.py FILE VERB``. It cannot be started while FILE.broken is there."""

import json
import sys
from pathlib import Path


def programs(place):
    """All of them, as ``runs.command`` has them in a configuration."""
    return {verb: [sys.executable, "-I", "-S", __file__, str(place), verb] for verb in ("status", "start", "stop", "wipe")}


def main(place, verb):
    """Carry out one verb."""
    state = Path(place)
    if verb == "start" and state.with_suffix(".broken").exists():
        sys.exit("it cannot be started")
    if verb in ("stop", "start"):
        state.write_text("running" if verb == "start" else "gone")
    running = state.exists() and state.read_text() == "running"
    if verb == "wipe":
        return {"removed": [], "remaining": []}
    return [
        {
            "name": "one",
            "state": "running" if running else "gone",
            "streams_state": "RUNNING" if running else None,
            "closed_cleanly": None if running else True,
            "detail": "a file",
        }
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
