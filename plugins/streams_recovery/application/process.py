"""An application as processes on this machine."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from streams_recovery.application import file_lock, local_state
from streams_recovery.application.instance_record import Ended, InstanceFiles, Started
from streams_recovery.application.instances import Fleet
from streams_recovery.application.launch import launch
from streams_recovery.application.port import InstanceState, InstanceStatus, StopReport, WipeReport
from streams_recovery.application.process_identity import Place, Process, session_of
from streams_recovery.config.runs import ProcessRuns
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.errors import ApplicationRunning, ConfigInvalid, Refused
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion

_KILL_SECONDS = 10.0
_RECORD_SECONDS = 2.0
# For a program to end whose Kafka Streams took all the time to close.
_END_SECONDS = 1.0
_LOOK_SECONDS = 0.05


class ProcessApplication:
    """See the port. Every instance is the child of a supervisor (supervisor.py) in a session of its own: it outlives whoever started it.

    Gone means that no process of the instance's session is alive. Clean means that the supervisor saw it exit with 0 or 143 after a stop
    request, with nothing left behind, and that it had said it was closed where it can. Processes that leave the session (daemons) are not seen. A process
    manager that ends the whole control group of the caller, as systemd does by default, ends the instances too.
    The section's ``start_timeout`` bounds the wait for another call that starts or stops, and for an answer to a query, as well.
    """

    def __init__(self, section: ProcessRuns, application_id: str, kind: ApplicationKind) -> None:
        self._section, self._application_id, self._kind = section, application_id, kind
        self._files = {instance.name: InstanceFiles(Path(section.directory), instance.name) for instance in section.instances}
        urls = {instance.name: instance.url for instance in section.instances}
        self._fleet = Fleet(urls=urls, control=section.control, statuses=self.status)

    @property
    def can_pause(self) -> bool:
        """See the port."""
        return self._section.no_pause_because is None

    def status(self) -> tuple[InstanceStatus, ...]:
        """Every configured instance. Raises ``Damaged`` for a record that cannot be read."""
        looks = {name: self._look(files) for name, files in self._files.items()}
        return self._fleet.completed(looks)

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Launch what is gone, each under its supervisor; returns when all are on record. Raises ``ConfigInvalid``."""
        section = self._section
        for instance in section.instances:
            files = self._files[instance.name]
            with file_lock.held(files.lock, seconds=section.start_timeout) as lock:
                if self._look(files, locked=True).state is InstanceState.GONE:
                    Path(instance.state_directory).mkdir(parents=True, exist_ok=True)
                    laid_over = {**section.environment_of(instance), **(environment or {})}
                    launch(files, section.command_of(instance), laid_over, section.working_directory, lock)

    def stop(self, *, timeout: float) -> StopReport:
        """Close, where it is offered, then SIGTERM to all at once, SIGKILL to what is left when the time (seconds) is up."""
        with ExitStack() as stack:
            for files in self._files.values():
                stack.enter_context(file_lock.held(files.lock, seconds=self._section.start_timeout))
            runs = self._living_runs()
            deadline = time.monotonic() + timeout
            self._fleet.close({name: run.run for name, run in runs.items()}, self._files, seconds=timeout)
            for run in runs.values():
                _end(run)
            self._await_end(runs, max(_END_SECONDS, deadline - time.monotonic()))
            for run in runs.values():
                _signal_all(run.process, signal.SIGKILL)
            self._await_end(runs, _KILL_SECONDS)
        return StopReport(instances=self.status())

    def pause(self) -> None:
        """POST to every instance, then see that each says it is paused."""
        self._fleet.pause()

    def resume(self) -> None:
        """POST to every running instance, then see that none says it is paused."""
        self._fleet.resume()

    def wipe_state(self) -> WipeReport:
        """Remove the state of every instance. No instance can be started meanwhile."""
        with ExitStack() as stack:
            for files in self._files.values():
                stack.enter_context(file_lock.held(files.lock, seconds=self._section.start_timeout))
            looks = {name: self._look(files, locked=True) for name, files in self._files.items()}
            running = [f"{name} ({look.detail})" for name, look in looks.items() if look.state is not InstanceState.GONE]
            if running:
                raise ApplicationRunning(
                    f"the state of instances that are not gone cannot be wiped: {', '.join(running)}",
                    next_step="stop them",
                    instances=running,
                )
            return local_state.wipe(self._state_directories(), self._application_id, self._kind)

    def query(self, store: str) -> dict[str, object]:
        """All keys over all instances. While the application rebalances, asked again until the start timeout."""
        return self._fleet.query(store, seconds=self._section.start_timeout)

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:
        """See the port: each key from the instance that has it."""
        return self._fleet.query_keys(questions, seconds=self._section.start_timeout if seconds is None else seconds)

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:  # noqa: ARG002 - a process may be stopped
        """A process needs no rights that could be asked for. State that would not be removed is found here, before anything is."""
        try:
            if wipes:
                local_state.checked(self._state_directories(), self._application_id, self._kind)
        except (ConfigInvalid, Refused) as error:
            return (PreflightFinding(severity=PreflightSeverity.BLOCKING, kind="local-state", text=error.reason, remedy=error.next_step),)
        return ()

    def _state_directories(self) -> list[Path]:
        return [Path(instance.state_directory) for instance in self._section.instances]

    def _look(self, files: InstanceFiles, *, locked: bool = False) -> InstanceStatus:
        """What records and processes say, without asking the instance itself. ``locked``: the caller holds the instance's lock."""
        # Asked before the records are read: a start that ends in between then shows in the records.
        busy = not locked and file_lock.is_held(files.lock)
        started = files.started()
        look = _never_started(files.name) if started is None else _look_at(files, started)
        if look.state is not InstanceState.GONE:
            return look
        if file_lock.is_held(files.alive):
            return _standing(files.name, InstanceState.RUNNING, f"a process that is not on record holds {files.alive}")
        return _standing(files.name, InstanceState.RUNNING, "being started or stopped") if busy else look

    def _living_runs(self) -> dict[str, Started]:
        found = {name: files.started() for name, files in self._files.items()}
        return {name: run for name, run in found.items() if run is not None and _here(run) and session_of(run.process)}

    def _await_end(self, runs: Mapping[str, Started], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(session_of(run.process) for run in runs.values()):
            time.sleep(_LOOK_SECONDS)


def _look_at(files: InstanceFiles, run: Started) -> InstanceStatus:
    where = f"pid {run.process.pid} on {run.place.host}"
    if not _here(run):
        # A pid of another machine that shares the directory can be neither seen nor signalled from here.
        return _standing(files.name, InstanceState.UNKNOWN, f"{where}, which is not this machine; ask there")
    if members := session_of(run.process):
        outlived = [str(member.pid) for member in members] if run.process not in members else []
        return _standing(files.name, InstanceState.RUNNING, f"{where} ended and left {', '.join(outlived)}" if outlived else where)
    ended = _witnessed(files, run)
    detail = f"{where}: {ended}" if ended else f"{where}: its end was not recorded"
    look = _standing(files.name, InstanceState.GONE, detail, clean=ended is not None and ended.clean)
    asked = files.stop_request(run.run) is not None
    return replace(look, reported_closed=ended is not None and ended.reported_closed, stopped_here=asked)


def _witnessed(files: InstanceFiles, run: Started) -> Ended | None:
    # The supervisor needs a moment to write the end down; without it a clean close would look unseen.
    deadline = time.monotonic() + _RECORD_SECONDS
    while (ended := files.ended(run.run)) is None and run.supervisor.alive and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return ended or files.ended(run.run)


def _here(run: Started) -> bool:
    return run.place.visible_from(Place.here())


def _never_started(name: str) -> InstanceStatus:
    return replace(_standing(name, InstanceState.GONE, "never started from here", clean=False), stopped_here=False)


def _standing(name: str, state: InstanceState, detail: str, *, clean: bool | None = None) -> InstanceStatus:
    return InstanceStatus(name=name, state=state, streams_state=None, closed_cleanly=clean, detail=detail)


def _end(run: Started) -> None:
    if run.supervisor.alive:
        run.supervisor.signal(signal.SIGTERM)
    else:
        _signal_all(run.process, signal.SIGTERM)


def _signal_all(leader: Process, number: signal.Signals) -> None:
    for member in session_of(leader):
        try:
            member.signal(number)
        except PermissionError as error:
            raise Refused(
                f"not allowed to signal pid {member.pid}: it runs as another user",
                next_step="run this as the user that started the instance",
                pid=member.pid,
            ) from error
