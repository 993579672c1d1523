"""What a piece of work takes of a process of its own, libraries' memory included."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.project import PROJECT

_MEASURED = """
import resource, sys
{prepare}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{work}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def growth(prepare: str, work: str, *arguments: str) -> int:
    """MiB by which a process that has done ``prepare`` grows at most while it does ``work``: Python both, with ``arguments`` in ``sys.argv``."""
    script = _MEASURED.format(prepare=prepare, work=work)
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'plugins'}{os.pathsep}{PROJECT}"}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=PROJECT, env=environment, check=True, capture_output=True, text=True, timeout=300)
    return int(done.stdout.split()[-1])
