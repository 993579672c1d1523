"""What somebody puts into a repository who may write to it: a forged plan or result is refused by its name, and nothing keeps an application from its next
savepoint, nor from a restore of an older one.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import Altered, Damaged, LockHeld, PlanChanged, Refused
from streams_recovery.core.jobs.spec import RestoreSpec
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.core.restore.point_in_time import QuarantineEntry
from streams_recovery.core.words import is_id, new_id
from streams_recovery.operations import interval
from streams_recovery.operations import restore as restores
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.preflight import before_restore
from streams_recovery.operations.restore import RestoreTicket, abandon
from streams_recovery.operations.restore.in_place import quarantine_log
from streams_recovery.operations.restore.open import note
from streams_recovery.storage.append_log import AppendLog
from tests.support.applications.in_place import Here, closed, opened_append
from tests.support.applications.pair import Here as Local
from tests.support.applications.pair import two_applications
from tests.support.applications.rebuilds import rebuild as rebuild_request
from tests.support.applications.reprocessing import again_at
from tests.support.applications.restore_steps import end, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, reopened, small_application
from tests.support.applications.topic_records import produce
from tests.support.repository.intruder import Intruder
from tests.support.repository.poison import LAST_SECOND, POISONS, poison

pytestmark = pytest.mark.kafka

Opened = tuple[RecoveryContext, RestoreTicket]


def restore(stack: ExitStack, bootstrap: str, directory: Path) -> Opened:
    small = stack.enter_context(small_application(bootstrap, directory))
    publish(small)
    return small.recovery, opened(small.recovery, asked(small.recovery, replace=True))


def rebuild(stack: ExitStack, bootstrap: str, directory: Path) -> Opened:
    small = stack.enter_context(small_application(bootstrap, directory))
    publish(small)
    return small.recovery, opened(small.recovery, rebuild_request(small.recovery))


def undo(stack: ExitStack, bootstrap: str, directory: Path) -> Opened:
    small = stack.enter_context(small_application(bootstrap, directory))
    recovery = small.recovery
    publish(small)
    ticket = opened(recovery, asked(recovery, replace=True))
    saved(recovery, ticket)
    loaded(recovery, ticket)
    note(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)
    return recovery, opened(recovery, asked(recovery, restores.Undo, restore_id=ticket.restore_id, replace=True))


def clone(stack: ExitStack, bootstrap: str, directory: Path) -> Opened:
    both = stack.enter_context(two_applications(bootstrap, directory))
    savepoint = publish(both.small)
    recovery = stack.enter_context(both.clone())
    return recovery, opened(recovery, asked(recovery, source=both.old.application_id, savepoint=savepoint))


def reprocess(stack: ExitStack, bootstrap: str, directory: Path) -> Opened:
    again = stack.enter_context(again_at(bootstrap, directory))
    claimed = again.claim(again.request(20, 45))
    recovery, source = again.scratch(claimed), again.own.application_id
    planned = interval.plan(recovery, source, claimed.request)
    ticket = interval.open_interval(recovery, source, claimed.request, planned, run_id="run-1", requested_by="test")
    restores.stop(recovery, ticket)
    return recovery, ticket


def refused(recovery: RecoveryContext, ticket: RestoreTicket) -> None:
    """From the command line: the first step that reads the plan names what lies beside it, and the application goes on as it was."""
    own = (recovery.application_id, getattr(ticket.request, "source", "") or recovery.application_id)
    before = recovery.cluster.describe_topics(sorted(name for name in recovery.cluster.topic_names() if any(one in name for one in own)))
    assert before
    forged = Intruder(recovery.repository).plan(recovery.application_id, ticket.restore_id)
    said: list[str] = []
    with pytest.raises(Altered) as caught:
        runs.carry_out(Runner(recovery=recovery, submitter=Local(recovery), say=said.append), ticket)
    assert caught.value.facts == {"key": forged}
    assert "the application goes on as it was" in said[-1]
    assert restores.phase_of(recovery, ticket).rank < Phase.DESTROYING.rank
    assert recovery.lock.holder() is None
    assert recovery.cluster.describe_topics(sorted(before)) == before


@pytest.mark.parametrize(
    "kind",
    [restore, *(pytest.param(kind, marks=pytest.mark.deep) for kind in (rebuild, undo, clone, reprocess))],
    ids=lambda kind: kind.__name__,
)
def test_a_plan_beside_the_approved_one_is_refused(bootstrap: str, tmp_path: Path, kind: Callable[..., Opened]) -> None:
    with ExitStack() as stack:
        refused(*kind(stack, bootstrap, tmp_path))


@pytest.mark.deep
def test_a_plan_beside_that_of_a_restore_to_a_moment_is_refused(here: Here) -> None:
    refused(here.recovery, opened(here.recovery, here.request(40)))


@contextmanager
def half_way(small: Small) -> Iterator[RestoreTicket]:
    """A restore that has replaced the topics, when the intruder comes."""
    publish(small)
    ticket = opened(small.recovery, asked(small.recovery, replace=True))
    saved(small.recovery, ticket)
    restores.prepare(small.recovery, ticket)
    yield ticket
    restores.abandon(small.recovery, ticket)


@pytest.mark.deep
def test_every_later_step_and_whoever_resumes_refuses_it_too(small: Small) -> None:
    recovery = small.recovery
    with half_way(small) as ticket:
        planned = restores.stored_plan(recovery, ticket)
        forged = Intruder(recovery.repository).plan(recovery.application_id, ticket.restore_id)
        with pytest.raises(Altered, match=forged):
            restores.plan_load(recovery, ticket)
        note(recovery, ticket, Phase.VERIFIED)
        with pytest.raises(Altered, match=forged):
            restores.set_offsets(recovery, ticket)
    with pytest.raises(Altered, match=forged):
        restores.plan_left(recovery, ticket.restore_id)
    with pytest.raises(Altered, match=forged):
        restores.resume(recovery, ticket.restore_id, run_id="again", approved_hash=planned.hash, take_over=False)
    assert recovery.lock.holder() is None
    recovery.repository.delete([forged])
    with pytest.raises(PlanChanged):
        restores.resume(recovery, ticket.restore_id, run_id="again", approved_hash="another", take_over=False)
    resumed = restores.resume(recovery, ticket.restore_id, run_id="again", approved_hash=planned.hash, take_over=False)
    assert (resumed.plan, resumed.plan_hash) == (ticket.plan, planned.hash)
    restores.abandon(recovery, resumed)


@pytest.mark.deep
def test_a_plan_that_was_replaced_is_refused_too(small: Small, tmp_path: Path) -> None:
    recovery = small.recovery
    with half_way(small) as ticket:
        file = tmp_path / "repository" / ticket.plan.key
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b'"strategy":"exact"', b'"strategy":"EXACT"'))
        with pytest.raises(Altered) as caught:
            restores.plan_load(recovery, ticket)
        assert (caught.value.facts["key"], caught.value.facts["written"]) == (ticket.plan.key, ticket.plan.sha256)
        file.write_bytes(whole)
        with pytest.raises(Altered, match=r"holds plan .* was approved"):
            restores.plan_load(recovery, replace(ticket, plan_hash="0" * 64))


@pytest.mark.deep
def test_a_ticket_beside_the_first_one_is_not_what_is_resumed(small: Small) -> None:
    recovery = small.recovery
    with half_way(small) as ticket:
        planned = restores.stored_plan(recovery, ticket)
    recovery.artifacts.write(
        ticket.restore_id, "restore-ticket", replace(ticket, request=asked(recovery, savepoint="another"), requested_by="them")
    )
    resumed = restores.resume(recovery, ticket.restore_id, run_id="again", approved_hash=planned.hash, take_over=False)
    assert (resumed.request, resumed.requested_by) == (ticket.request, ticket.requested_by)
    restores.abandon(recovery, resumed)


def test_a_plan_that_is_there_before_its_restore_stops_it(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    recovery, at = small.recovery, small.recovery.clock()
    publish(small)
    still = replace(recovery, clock=lambda: at)
    planned = restores.plan(still, asked(recovery, replace=True))
    monkeypatch.setattr("streams_recovery.operations.restore.open.new_id", lambda *_, **__: "20261121T010203Z-0123456789")
    key = recovery.artifacts.write_once("20261121T010203Z-0123456789", "restore-plan", planned).key
    with pytest.raises(Altered, match="not written by") as caught:
        restores.open_restore(still, asked(recovery, replace=True), run_id="r", requested_by="test", approved_hash=planned.hash)
    assert caught.value.facts == {"key": key}
    assert recovery.lock.holder() is None


@pytest.mark.deep
def test_what_is_appended_again_is_what_was_approved(here: Here) -> None:
    recovery, restore_id = here.recovery, closed(here)
    planned = restores.plan_append(recovery, restore_id)
    ticket = opened_append(here, restore_id)
    log = quarantine_log(recovery, restore_id)
    aside, begins = log.read_all()
    for shown in (3, 5):
        log.append(replace(begins, ends=dict.fromkeys(planned.ends, shown)))
    forged = recovery.artifacts.write(f"{restore_id}-append", "append-plan", replace(planned, topics=(), rows={}, ends={}))
    spec = restores.plan_append_job(recovery, ticket).spec
    assert spec is not None
    assert [part.first_offset for part in recovery.artifacts.read(RestoreSpec, spec).partitions] == [planned.ends[here.input]]
    with pytest.raises(Altered) as caught:
        restores.plan_append_job(recovery, replace(ticket, plan=replace(ticket.plan, key=forged.key)))
    assert (caught.value.facts["key"], caught.value.facts["written"]) == (forged.key, ticket.plan.sha256)
    restores.leave_append(recovery, ticket)

    # Another file with as many rows is another plan.
    [topic] = planned.topics
    [part] = topic.partitions
    other = replace(part, files=tuple(replace(file, sha256="0" * 64) for file in part.files))
    assert replace(planned, topics=(replace(topic, partitions=(other,)),)).hash != planned.hash
    strange = QuarantineEntry(
        kind="set-aside",
        at=aside.at,
        run="them",
        savepoint_id=aside.savepoint_id,
        moment=aside.moment,
        topics=(replace(topic, partitions=(part, part)),),
    )
    quarantine_log(recovery, "29991121T010203Z-0123456789").append(strange)
    with pytest.raises(Damaged) as caught:
        restores.plan_append(recovery, "latest")
    assert caught.value.facts["partitions"] == [str(here.input)]


@pytest.mark.deep
@pytest.mark.fault("F63")
@pytest.mark.parametrize("role", ["output", "changelog", "stranger"])
def test_a_forged_quarantine_appends_to_nothing_but_inputs(here: Here, role: str) -> None:
    recovery, restore_id = here.recovery, closed(here)
    [topic] = restores.plan_append(recovery, restore_id).topics
    victim = f"victim{uuid.uuid4().hex[:8]}" if role == "stranger" else getattr(here.small, role).topic
    if role == "stranger":
        recovery.cluster.create_topic(victim, partitions=1, replication_factor=1, config={})
    [aside, *_] = quarantine_log(recovery, restore_id).read_all()
    forged = "29991121T010203Z-0123456789"
    quarantine_log(recovery, forged).append(replace(aside, topics=(replace(topic, name=victim),)))
    created = CreatedTopic(topic=victim, topic_id=recovery.cluster.describe_topics([victim])[victim].topic_id)
    AppendLog(recovery.repository, recovery.layout.journal(forged), JournalEntry).append(
        JournalEntry(phase=Phase.CLOSED, at=1, created=(created,))
    )
    with pytest.raises(Refused, match=f"no inputs of {recovery.application_id}: {victim}"):
        restores.plan_append(recovery, "latest")
    recovery.cluster.delete_topics([victim] if role == "stranger" else [])


@pytest.mark.deep
@pytest.mark.parametrize(("configured", "offset", "severity"), [(False, 4, "blocking"), (False, 999, "warning"), (True, 4, "warning")])
def test_a_record_of_a_retirement_that_offsets_or_configuration_contradict_holds_no_restore_up(
    small: Small, configured: bool, offset: int, severity: str
) -> None:
    entry = OwnershipEntry(role=Role.RETIRED, other="nobody", run="r", at=1, offsets={small.input: offset}, again={}, tail={})
    small.recovery.ownership.append(entry)
    # Without all configurations nothing contradicts that the other one is its clone.
    with nullcontext(small) if configured else reopened(small) as found:
        told = [one for one in before_restore(found.recovery, None) if one.kind == "outputs-transferred"]
    assert [one.severity for one in told] == [severity]


@pytest.mark.deep
@pytest.mark.fault("F14")
def test_of_two_runs_that_wait_for_one_application_the_lock_refuses_the_second(bootstrap: str, tmp_path: Path) -> None:
    def run(recovery: RecoveryContext, request: restores.RestoreRequest, approved: str) -> RestoreTicket:
        return restores.open_restore(recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=approved)

    (tmp_path / "other").mkdir()
    with small_application(bootstrap, tmp_path) as small, small_application(bootstrap, tmp_path / "other") as other:
        waiting = []
        for one in (small, other):
            publish(one)
            request = asked(one.recovery, replace=True)
            waiting.append((one.recovery, request, restores.plan(one.recovery, request).hash))
        mine, theirs = waiting
        first = run(*mine)
        with pytest.raises(LockHeld) as caught:
            run(*mine)
        assert caught.value.facts["purpose"] == f"restore of {small.recovery.application_id}"
        restores.abandon(other.recovery, run(*theirs))
        restores.stop(small.recovery, first)
        saved(small.recovery, first)
        loaded(small.recovery, first)
        note(small.recovery, first, Phase.CLOSED)
        small.recovery.lock.release(first.lock)
        with pytest.raises(PlanChanged):
            run(*mine)


@pytest.mark.deep
@pytest.mark.fault("F63")
def test_a_poisoned_newest_manifest_stops_neither_the_next_savepoint_nor_a_restore_of_an_older_one(small: Small) -> None:
    first = publish(small)
    savepoints = Path(str(small.recovery.config.storage.path)) / small.recovery.application_id / "savepoints"
    for name in POISONS:
        newer = new_id(small.recovery.clock() + 3_600_000, "poison")
        bad = poison(savepoints, name, newer)
        with pytest.raises(Damaged, match=newer):
            small.recovery.savepoints.latest()
        taken = publish(small)
        assert taken > newer, "the newest one is the one that was taken last"
        found = small.recovery.savepoints.latest()
        assert found is not None
        assert (found.savepoint_id, found.parent_id) == (taken, None), "nothing is shared with what cannot be read"
        shutil.rmtree(savepoints / taken)
        shutil.rmtree(bad.parent)
    poison(savepoints, "a bomb of lists")
    poison(savepoints, "nothing", LAST_SECOND)
    produce(small.recovery, small.changelog, 3)
    ticket = opened(small.recovery, asked(small.recovery, savepoint=first, replace=True))
    assert saved(small.recovery, ticket).savepoint_id is not None
    assert loaded(small.recovery, ticket) > 0
    assert verified(small.recovery, ticket).partitions
    assert end(small) < 7, "what came after the savepoint is gone"
    abandon(small.recovery, ticket)


@pytest.mark.fault("F63")
def test_strange_objects_everywhere_stop_no_savepoint(small: Small) -> None:
    root = Path(str(small.recovery.config.storage.path)) / small.recovery.application_id
    first = publish(small)
    places = [
        "locks",
        "holds",
        "quiesce-records",
        "pins",
        "restores",
        "restores/x/journal",
        "savepoints",
        "published",
        "expired",
        "offsets",
        "segments",
    ]
    for place in places:
        (root / place).mkdir(parents=True, exist_ok=True)
        for name in ("stray", "000000000001.json.bak", "ü", "a\nb"):
            (root / place / name).write_bytes(b"[" * 1_000)
    (root / "locks" / "self").symlink_to(".")
    second = publish(small)
    assert is_id(second)
    assert small.recovery.savepoints.ids() == [first, second]
    found = small.recovery.savepoints.read(second)
    assert found.parent_id == first
