"""The stored status after a run: what the run has changed in the repository is in it at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streams_recovery.core.errors import NoRoom, RepositoryUnavailable
from streams_recovery.operations.context import RecoveryContext


@contextmanager
def kept_current(recovery: RecoveryContext) -> Iterator[None]:
    """Make the repository's part of the status anew at the end, if a run has changed what it tells of. The run may have failed."""
    try:
        yield
    except (RepositoryUnavailable, NoRoom):
        raise
    except Exception:
        _refresh_if_changed(recovery)
        raise
    _refresh_if_changed(recovery)


def _refresh_if_changed(recovery: RecoveryContext) -> None:
    layout = recovery.layout
    shown = {
        layout.savepoints,
        layout.published_prefix,
        layout.retired_prefix,
        layout.pins,
        layout.announcements,
        layout.checks,
        layout.drills,
        layout.sites,
        layout.restores,
        layout.reprocessed,
        layout.quarantines,
        layout.keys,
    }
    if shown & recovery.repository.changed:
        recovery.repository.changed.clear()
        # What only looks does not load all that a status is made of.
        from streams_recovery.operations.status.look import refresh  # noqa: PLC0415

        refresh(recovery)
