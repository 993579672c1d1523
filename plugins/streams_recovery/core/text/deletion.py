"""From when on savepoints are deleted, for people."""

from __future__ import annotations

from streams_recovery.core.repository.announcement import Apply, DeletionOutlook
from streams_recovery.core.text.escaping import Markdown, md
from streams_recovery.core.text.restore_plan import moment


def outlook_text(outlook: DeletionOutlook) -> Markdown:
    """What runs of the schedule do with a plan of expiry."""
    if not outlook.scheduled:
        return md("No run is scheduled (`retention.schedule`). Nothing is deleted unless somebody starts a run.")
    if outlook.apply is Apply.YES:
        return md("Runs of the schedule carry this out (`retention.apply: true`).")
    if outlook.apply is Apply.NO:
        return md("Runs of the schedule only show this (`retention.apply: false`).")
    if outlook.deletes_from is None:
        days = outlook.after_days
        return md("Runs of the schedule only show this. The next one announces that they carry it out from {} days later on.", days)
    if outlook.due:
        return md("Runs of the schedule carry this out since {}, as it was announced.", moment(outlook.deletes_from))
    return md("**From {} on, runs of the schedule carry this out.** Until then they only show it.", moment(outlook.deletes_from))
