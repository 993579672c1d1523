"""Changes on this machine's disks that a power cut must not undo."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the file system can. Raises ``OSError``."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems do not know this for directories.
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
