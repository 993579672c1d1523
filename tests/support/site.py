"""The documentation as a site: built as `make site` does, and served as a web server would."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embedded.ports import HOST
from tests.support.project import PROJECT


# Without --quiet: with it MkDocs counts no warnings, and --strict fails nothing.
def build(target: Path) -> subprocess.CompletedProcess[str]:
    """Build it into ``target``. A broken link fails it."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Writes no line for each request."""

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name that the base class has
        """See the base class."""


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The address at which the files of a directory are."""
    server = http.server.ThreadingHTTPServer((HOST, 0), functools.partial(_Quiet, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
