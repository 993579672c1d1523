"""Who is in the group: two processes of the example that are known, and a third one that somebody started by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from embedded.ports import HOST, free_ports
from streams_recovery.core.errors import Refused
from streams_recovery.core.group_members import UnknownMembers, processes
from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.core.waiting import poll
from streams_recovery.operations import savepoint
from streams_recovery.operations.bring_down import roll_of
from tests.support.applications.savepoint_steps import begun
from tests.support.applications.small import with_policy
from tests.support.stack.oracle import problems
from tests.support.stack.savepoints import cut_of
from tests.support.stack.stage import Stage, stage

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(1_200)]

STATIC_SESSION_MS = 45_000


@pytest.fixture(params=["classic", "static", "streams"])
def on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STREAMS_RECOVERY_GROUP_PROTOCOL", "streams" if request.param == "streams" else "classic")
        environment.setenv("ORDER_PROCESSING_TICK_MS", "250")
        if request.param == "static":
            environment.setenv("ORDER_PROCESSING_GROUP_INSTANCE_ID", "{name}")
            environment.setenv("STREAMS_RECOVERY_SESSION_TIMEOUT_MS", str(STATIC_SESSION_MS))
        with stage(tmp_path_factory.mktemp("stage"), guarantee="at_least_once", orders=400) as found:
            yield found


@contextmanager
def by_hand(on: Stage) -> Iterator[None]:
    """One more instance, which no configuration has."""
    process = on.recovery.config.runs.process
    assert process is not None
    own = {"name": "by-hand", "port": str(free_ports(1)[0]), "state_directory": str(on.stack.directory / "by-hand")}
    environment = {name: value.format(**own) for name, value in process.environment.items()}
    on.processes.start("by-hand", list(process.command), environment={**on.stack.environment, **environment, "HTTP_HOST": HOST})
    try:
        assert poll(lambda: True if len(members(on)) == 3 else None, seconds=120, interval=0.5), members(on)
        yield
    finally:
        on.processes.stop("by-hand", seconds=60)


def members(on: Stage) -> dict[str, tuple[str, ...]]:
    """Who is in the group, by process."""
    found = processes(on.recovery.groups.describe(on.recovery.application_id).members)
    return {process.name: tuple(sorted(member.member_id for member in process.members)) for process in found}


@pytest.mark.fault("F72")
def test_two_known_processes_give_exact_savepoints_and_a_third_refuses_them_before_anything_is_stopped(on: Stage) -> None:
    recovery = on.recovery
    on.await_running()
    assert len(members(on)) == 2
    draft = cut_of(recovery, QuiesceMode.STOP, "two")
    assert (draft.consistency, problems(recovery, draft)) == (Consistency.EXACT, []), draft.proof
    on.await_running()
    with by_hand(on):
        before, there = on.await_running(), members(on)
        with pytest.raises(Refused, match="no known instance accounts for"):
            begun(recovery)
        lenient = with_policy(recovery, unknown_members="ahead")
        ticket = begun(lenient)
        try:
            with pytest.raises(UnknownMembers, match="nothing was stopped") as caught:
                savepoint.quiesce(recovery, ticket)
            assert caught.value.facts["group"] == recovery.application_id
            ahead = savepoint.quiesce(lenient, ticket)
            assert (ahead.mode, ahead.still, ahead.unknown) == (QuiesceMode.LIVE, False, True)
            assert savepoint.capture(lenient, ticket, ahead).consistency is Consistency.AHEAD
        finally:
            savepoint.finish(recovery, ticket)
        assert (on.instances(), members(on)) == (before, there), "nobody was stopped, and nobody was removed"
    assert poll(lambda: True if len(members(on)) == 2 else None, seconds=120, interval=0.5), members(on)
    on.await_running()
    draft = cut_of(recovery, QuiesceMode.STOP, "two-again")
    assert (draft.consistency, problems(recovery, draft)) == (Consistency.EXACT, []), draft.proof


@pytest.mark.fault("F103")
@pytest.mark.parametrize("on", ["static"], indirect=True)
def test_static_instances_that_lost_their_state_are_no_strangers(on: Stage) -> None:
    recovery = on.recovery
    on.await_running()
    first = members(on)
    assert recovery.application.stop(timeout=60).gone
    recovery.application.wipe_state()
    recovery.application.start()
    on.await_running()
    assert members(on).keys() == first.keys(), "the group has their first names"
    assert set(roll_of(recovery).accounted) == set(first)
    draft = cut_of(recovery, QuiesceMode.STOP, "again")
    assert (draft.consistency, problems(recovery, draft)) == (Consistency.EXACT, []), draft.proof
