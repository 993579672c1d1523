"""What a restore may still do, by how far it has come."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.journal import (
    CreatedTopic,
    JournalEntry,
    Phase,
    created_by,
    may_restart,
    reached,
    removable,
    require,
    result_of,
)
from streams_recovery.core.run_artifact import ArtifactRef

ORDER = [
    "opened",
    "stopped",
    "saved",
    "destroying",
    "created",
    "loaded",
    "verified",
    "offsets-set",
    "wiped",
    "deployed",
    "started",
    "recovered",
    "input-complete",
    "closed",
]


def entry(phase: Phase, *created: tuple[str, str]) -> JournalEntry:
    return JournalEntry(phase=phase, at=1, created=tuple(CreatedTopic(topic=topic, topic_id=topic_id) for topic, topic_id in created))


def test_the_order_of_the_phases() -> None:
    assert [phase.value for phase in sorted(Phase, key=lambda phase: phase.rank)] == ORDER


@pytest.mark.fault("F20")
def test_a_step_runs_only_where_it_belongs() -> None:
    for at_least, before, now in product(Phase, Phase, Phase):
        allowed = ORDER.index(at_least) <= ORDER.index(now) < ORDER.index(before)
        if allowed:
            require((entry(now),), at_least=at_least, before=before)
        else:
            with pytest.raises(Refused, match=f"in phase {now}"):
                require((entry(now),), at_least=at_least, before=before)


def test_the_application_may_go_on_only_while_nothing_was_destroyed() -> None:
    assert [phase.value for phase in Phase if may_restart(phase)] == ["opened", "stopped", "saved"]


def test_the_newest_entry_counts_and_a_restore_without_entries_is_open() -> None:
    assert reached(()) is Phase.OPENED
    assert reached((entry(Phase.LOADED), entry(Phase.DESTROYING))) is Phase.DESTROYING


def test_topics_of_every_attempt_are_remembered() -> None:
    entries = (entry(Phase.DESTROYING, ("a", "1")), entry(Phase.DESTROYING, ("b", "2")), entry(Phase.DESTROYING, ("a", "3")))
    assert created_by(entries) == {"a": {"1", "3"}, "b": {"2"}}


def test_the_newest_result_of_a_phase_is_found_again_by_whoever_resumes() -> None:
    first, second = (ArtifactRef.of(f"a/work/r/verified.000{number}.json", b"{}") for number in (1, 2))
    written = tuple(
        JournalEntry(phase=phase, at=0, created=(), result=result)
        for phase, result in ((Phase.LOADED, None), (Phase.VERIFIED, first), (Phase.VERIFIED, second), (Phase.WIPED, None))
    )
    assert result_of(written, Phase.VERIFIED, Phase.INPUT_COMPLETE) == second
    assert result_of(written, Phase.LOADED, Phase.RECOVERED) is None


NAMES = st.sampled_from(["drill-a-x-changelog", "drill.out", "orders", "a-x-changelog"])
IDS = st.sampled_from(["1", "2", "3"])


@given(
    journals=st.lists(st.lists(st.tuples(NAMES, IDS), max_size=4), max_size=3),
    own=st.sets(NAMES),
    existing=st.dictionaries(NAMES, IDS),
)
def test_a_journal_narrows_what_may_be_removed_and_never_widens_it(
    journals: list[list[tuple[str, str]]], own: set[str], existing: dict[str, str]
) -> None:
    found = removable([(entry(Phase.CREATED, *created),) for created in journals], own, existing)
    assert set(found.go) == {name for name in own & set(existing) if any((name, existing[name]) in created for created in journals)}
    assert not set(found.strange) & own
