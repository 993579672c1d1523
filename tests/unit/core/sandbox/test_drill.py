"""What a drill is said to have measured follows from what it did, and never flatters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.sandbox.drill import DrillEntry, DrillRestore, drill_entry, furthest
from tests.support.examples.restore_plan import PLAN
from tests.support.examples.restore_report import REPORT

BEGAN = 1_000_000


def journal(*phases: Phase, at: int = BEGAN) -> tuple[JournalEntry, ...]:
    return tuple(JournalEntry(phase=phase, at=at + number * 1000, created=()) for number, phase in enumerate(phases, 1))


def restored(phases: tuple[Phase, ...], rows: int = 10, captured_at: int = BEGAN - 3_600_500, *, proven: bool = True) -> DrillRestore:
    return DrillRestore(
        restore_id="20261121T000000Z-0123456789",
        plan_hash="abc",
        planned=replace(PLAN, captured_at=captured_at),
        report=replace(REPORT, rows=rows, missing=() if proven else ("a-s-changelog-2",)),
        journal=journal(*phases),
    )


def entry(found: DrillRestore | None, left: tuple[str, ...] = ()) -> DrillEntry:
    return drill_entry(run="run", requested_by="airflow", began_at=BEGAN, restored=found, left=left)


def test_rpo_is_the_age_of_the_savepoint_and_rto_ends_with_the_recovery() -> None:
    done = entry(restored(tuple(Phase)))
    assert (done.rpo_seconds, done.rto_seconds, done.reached, done.succeeded) == (3600.5, 12.0, Phase.CLOSED, True)
    assert done.outcome == "succeeded"


def test_the_loss_is_the_age_of_the_input_that_came_back_and_nothing_where_none_was_brought() -> None:
    brought = replace(restored(tuple(Phase)), input_upto=BEGAN - 9_000)
    assert (entry(brought).loss_seconds, entry(restored(tuple(Phase))).loss_seconds) == (9.0, None)
    assert entry(replace(brought, input_upto=BEGAN + 5_000)).loss_seconds == 0, "clocks of two machines"


def test_a_drill_that_never_began_is_an_entry_without_figures() -> None:
    none = entry(None)
    assert (none.rpo_seconds, none.rto_seconds, none.reached, none.succeeded) == (None, None, None, False)
    assert none.outcome == "failed before it began"


def test_one_that_was_broken_off_has_no_rto_and_says_how_far_it_came() -> None:
    # Its removal closed the journal.
    broken = entry(restored((Phase.OPENED, Phase.STOPPED, Phase.SAVED, Phase.CREATED, Phase.CLOSED), rows=0, proven=False))
    assert (broken.reached, broken.rto_seconds, broken.succeeded) == (Phase.CREATED, None, False)
    assert broken.outcome == "failed after created"


def test_one_that_left_something_has_not_succeeded() -> None:
    left = entry(restored(tuple(Phase)), ("topic x",))
    assert (left.succeeded, left.outcome) == (False, "failed after closed, something is left")


def test_one_without_proof_or_without_a_record_has_not_succeeded() -> None:
    assert not entry(restored(tuple(Phase), proven=False)).succeeded
    assert not entry(restored(tuple(Phase), rows=0)).succeeded
    assert not entry(replace(restored(tuple(Phase)), report=None)).succeeded


def test_a_drill_of_other_numbers_says_so_and_what_only_a_rescale_needs_is_no_recovery_time() -> None:
    saved, *later = (
        JournalEntry(phase=phase, at=BEGAN + at, created=()) for phase, at in ((Phase.SAVED, 4_000), (Phase.RECOVERED, 99_000))
    )
    noted = replace(saved, at=BEGAN + 64_000, result=ArtifactRef(key="placed-plan", sha256="0" * 64))
    found = replace(restored(tuple(Phase)), journal=(saved, noted, *later, *journal(Phase.CLOSED, at=BEGAN + 99_000)))
    told = drill_entry(run="run", requested_by="t", began_at=BEGAN, restored=found, left=(), site="east", partitions="orders=3 more=3")
    assert (told.rto_seconds, told.outcome) == (39.0, "succeeded at east with more=3, orders=3")
    assert replace(told, succeeded=False, reached=None).outcome == "failed before it began at east with more=3, orders=3"


def test_the_savepoint_of_a_clock_that_is_ahead_is_new_not_from_the_future() -> None:
    assert entry(restored(tuple(Phase), captured_at=BEGAN + 5_000)).rpo_seconds == 0


@given(st.lists(st.sampled_from(list(Phase)), min_size=1, unique=True), st.integers(0, 3), st.booleans(), st.booleans())
def test_nothing_succeeds_without_recovery_proof_and_removal(phases: list[Phase], rows: int, proven: bool, clean: bool) -> None:
    found = restored(tuple(sorted(phases, key=lambda phase: phase.rank)), rows, proven=proven)
    told = entry(found, () if clean else ("group x",))
    assert told.succeeded is ({Phase.RECOVERED, Phase.CLOSED} <= set(phases) and rows > 0 and proven and clean)
    assert (told.rto_seconds is not None) == (Phase.RECOVERED in phases)
    assert furthest(found.journal) is not Phase.CLOSED or Phase.RECOVERED in phases
    assert codec.loads(DrillEntry, codec.dumps(told), where="entry") == told
