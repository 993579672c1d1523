"""The process that holds a lock, and the proof that it is dead."""

from __future__ import annotations

import os

from streams_recovery.application.instance_record import Place, Process, birth
from streams_recovery.core.repository.lease import HolderProcess


def this_process() -> HolderProcess:
    """The process that this runs in."""
    here, own = Place.here(), Process.current()
    return HolderProcess(host=here.host, boot=here.boot, namespace=here.namespace, pid=own.pid, born=own.born)


def is_dead(holder: HolderProcess) -> bool:
    """True only with proof: the pid counts here, and no process has it, or one that was born at another time. A process of another host, of another
    boot or of another container may be alive. So may one that this user must not see.
    """
    here = Place.here()
    if not here.boot or (here.boot, here.namespace) != (holder.boot, holder.namespace):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    born = birth(holder.pid)
    return born is not None and bool(holder.born) and born != holder.born
