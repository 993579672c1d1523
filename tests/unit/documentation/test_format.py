"""docs/format.md names every field of what the logs of a repository have."""

from __future__ import annotations

import dataclasses
import re

import pytest

from streams_recovery.core.archive.cuts import KeptCut
from streams_recovery.core.archive.log import ArchiveEntry
from streams_recovery.core.outputs.comparison import OutputsReport
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.repository.journal import JournalEntry
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.ownership import OwnershipEntry, ReadUpTo
from streams_recovery.core.repository.retention import Announcement, Pin
from streams_recovery.core.repository.seal import Adoption
from streams_recovery.core.repository.sites import SiteEntry
from streams_recovery.core.restore.point_in_time import QuarantineEntry
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.sandbox.interval_log import ReprocessEntry
from streams_recovery.core.sandbox.results import SlotEntry
from streams_recovery.core.savepoint.cut import QuiesceRecord
from streams_recovery.core.savepoint.writers import LoadedEntry
from streams_recovery.core.scheduled_run import RunEntry
from streams_recovery.core.state.inspection import Inspection
from streams_recovery.core.status.alerts import AlertsEntry
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.topic_holds.log import HoldEntry
from tests.support.project import PROJECT

PAGE = (PROJECT / "docs" / "format.md").read_text(encoding="utf-8")
LOGS: dict[str, type] = {
    "adopted": Adoption,
    "alerts": AlertsEntry,
    "announcements": Announcement,
    "archive": ArchiveEntry,
    "archive-cuts": KeptCut,
    "checks": CheckReport,
    "drills": DrillEntry,
    "holds": HoldEntry,
    "inspections": Inspection,
    "journal": JournalEntry,
    "loaded": LoadedEntry,
    "locks": LockRecord,
    "outputs-compared": OutputsReport,
    "ownership": OwnershipEntry,
    "pins": Pin,
    "quarantines": QuarantineEntry,
    "quiesce-records": QuiesceRecord,
    "read-up-to": ReadUpTo,
    "reprocessed": ReprocessEntry,
    "scheduled-runs": RunEntry,
    "sites": SiteEntry,
    "slots": SlotEntry,
    "status": StatusReport,
}
# One has the entries of ``locks``, the other is a log for each savepoint with what the manifest has too.
OTHERS = {"archive-locks", "offsets"}


@pytest.mark.parametrize("log", LOGS)
def test_each_field_of_an_entry_is_in_the_part_about_its_log(log: str) -> None:
    part = re.search(rf"^(- \*\*{log}\*\*:|`{log}/` is ).*?(?=^- |^$)", PAGE, re.MULTILINE | re.DOTALL)
    assert part is not None
    assert [field.name for field in dataclasses.fields(LOGS[log]) if f"`{field.name}`" not in part[0]] == []


def test_no_log_is_left_out() -> None:
    (line,) = re.findall(r"^(`locks/`.*?) are logs\.", PAGE, re.MULTILINE)
    assert set(re.findall(r"`([a-z-]+)/`", line)) == LOGS.keys() | OTHERS
