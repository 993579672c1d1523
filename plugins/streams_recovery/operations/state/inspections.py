"""What people had compared and looked up in savepoints: an append log in the repository, of which only the newest entries are kept."""

from __future__ import annotations

from itertools import islice
from typing import Final

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.state.inspection import Inspection
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

LOGGER = logger("streams_recovery.operations.state.inspections")

KEPT: Final = 20


def inspection_log(repository: Repository, layout: Layout) -> AppendLog[Inspection]:
    """The log itself."""
    return AppendLog(repository, layout.inspections, Inspection)


def record(recovery: RecoveryContext, found: Inspection) -> None:
    """Store one, and remove old ones as far as that is allowed."""
    log = inspection_log(recovery.repository, recovery.layout)
    log.append(found, whole=False)
    try:
        log.prune(KEPT, whole=False)
    except RecoveryError as error:
        LOGGER.warning("old results of comparisons and look-ups stay: %s", error.reason)


def newest(repository: Repository, layout: Layout) -> tuple[Inspection, ...]:
    """The newest ones that can be read, the last one first. Raises ``RepositoryUnavailable``."""
    return tuple(islice(inspection_log(repository, layout).readable_back(whole=False), KEPT))
