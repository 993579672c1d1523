"""Files that are made once, kept, and used by many processes: never half there, and made by one while the others wait."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from pathlib import Path


def built(target: Path, make: Callable[[Path], None], *, good: Callable[[Path], bool] = Path.exists) -> Path:
    """``target``. Unless it is there and ``good``, ``make`` writes it to the path it is given. Raises what ``make`` raises."""
    if good(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        # Gone with the process that holds it, so whoever waits does not wait for a dead one.
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have made it meanwhile.
        if not good(target):
            with tempfile.TemporaryDirectory(dir=target.parent, prefix="making-") as work:
                made = Path(work) / target.name
                make(made)
                made.replace(target)
    return target


def files_state(files: tuple[Path, ...]) -> list[str]:
    """Path, size and time of change of each: differs after any honest change of one of them, and costs no reading."""
    return [f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in ((path, path.stat()) for path in files)]
