"""From when on savepoints are deleted, for people."""

from __future__ import annotations

from streams_recovery.core.repository.announcement import Apply, DeletionOutlook
from streams_recovery.core.text.restore_plan import moment


def outlook_text(outlook: DeletionOutlook) -> str:
    """What runs of the schedule do with a plan of expiry, as markdown."""
    if not outlook.scheduled:
        return "No run is scheduled (`retention.schedule`). Nothing is deleted unless somebody starts a run."
    if outlook.apply is Apply.YES:
        return "Runs of the schedule carry this out (`retention.apply: true`)."
    if outlook.apply is Apply.NO:
        return "Runs of the schedule only show this (`retention.apply: false`)."
    if outlook.deletes_from is None:
        return (
            f"Runs of the schedule only show this. The next one announces that they carry it out from {outlook.after_days} days later on."
        )
    if outlook.due:
        return f"Runs of the schedule carry this out since {moment(outlook.deletes_from)}, as it was announced."
    return f"**From {moment(outlook.deletes_from)} on, runs of the schedule carry this out.** Until then they only show it."
