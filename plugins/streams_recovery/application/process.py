"""An application as processes on this machine.

An instance is started under its supervisor, with an environment in which nothing of the caller's is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streams_recovery.application import instance_record
from streams_recovery.application.found_process import NOT_THERE, FoundProcess, by_command_line, by_pid_file
from streams_recovery.application.instance_record import NO_SUPERVISOR, Ended, InstanceFiles, Place, Process, Started, is_hidden, members_of
from streams_recovery.application.instances import Fleet
from streams_recovery.application.local_state import checked, open_files, since, task_directory_of, wipe
from streams_recovery.application.port import (
    InstanceState,
    InstanceStatus,
    StateSince,
    StopReport,
    WipeMark,
    WipeReport,
    require_gone,
    standing,
)
from streams_recovery.application.supervisor import Order
from streams_recovery.config.runs import ProcessRuns
from streams_recovery.core import codec
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Refused
from streams_recovery.core.preflight.findings import PreflightFinding, refused, warning
from streams_recovery.core.remedies.remedy import as_refused
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion
from streams_recovery.core.words import first_names

if TYPE_CHECKING:
    from streams_recovery.core.rollout.described import DescribedTopology

# What a program needs to find its way on the machine. An orchestrator's own environment holds connections, keys and passwords.
_INHERITED = ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR")
_LOG_BYTES = 64 * 1024 * 1024
_KILL_SECONDS = 10.0
_RECORD_SECONDS = 2.0
# For a program to end whose Kafka Streams took all the time to close.
_END_SECONDS = 1.0
_LOOK_SECONDS = 0.05
_TWICE = as_refused(
    "take the first savepoint twice: the first one that stops it is refused as not exact, and starts it from here; the next one is exact"
)


class ProcessApplication:
    """The port for processes. Every instance is the child of a supervisor (supervisor.py) in a session of its own: it outlives the process that started it.

    Gone means that no process of the instance's session is alive, nor is hidden from this user. Clean means that the supervisor saw it
    exit with 0 or 143 after a stop request, with nothing left behind, and that it had said it was closed where it can. Processes that leave the session
    (daemons) are not seen, except by a pid file. A manager that ends the whole control group of the caller, as systemd does by default, ends the instances too.
    The section's ``start_timeout`` bounds the wait for another call that starts or stops, and for an answer to a query, as well.
    """

    def __init__(self, section: ProcessRuns, application_id: str, kind: ApplicationKind) -> None:
        self._section, self._application_id, self._kind = section, application_id, kind
        self._files = {instance.name: InstanceFiles(Path(section.directory), instance.name) for instance in section.instances}
        self._instances = {instance.name: instance for instance in section.instances}
        urls = {instance.name: instance.url for instance in section.instances if instance.url is not None}
        self._fleet = Fleet(urls=urls, control=section.control_of_all, statuses=self.status)

    @property
    def can_pause(self) -> bool:
        return self._section.no_pause_because is None

    def status(self) -> tuple[InstanceStatus, ...]:
        """Every configured instance. Raises ``Damaged`` for a record that cannot be read."""
        looks = {name: self._look(files) for name, files in self._files.items()}
        silent = self._section.silent
        return tuple(replace(one, silent=one.silent or one.name in silent) for one in self._fleet.completed(looks))

    def require_same_version(self) -> None:
        """A start reads the command anew from the configuration, which says what runs."""

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Launch what is gone, each under its supervisor; returns when all are on record. Raises ``ConfigInvalid``."""
        section = self._section
        for instance in section.instances:
            files = self._files[instance.name]
            with instance_record.held(files.lock, seconds=section.start_timeout) as lock:
                if self._look(files, locked=True).state is InstanceState.GONE:
                    Path(instance.state_directory).mkdir(parents=True, exist_ok=True)
                    laid_over = {**section.environment_of(instance), **(environment or {})}
                    launch(files, section.command_of(instance), laid_over, section.working_directory, lock)

    def stop(self, *, timeout: float) -> StopReport:
        """Close, where it is offered, then SIGTERM to all at once, SIGKILL to what is left when the time (seconds) is up."""
        with ExitStack() as stack:
            for files in self._files.values():
                stack.enter_context(instance_record.held(files.lock, seconds=self._section.start_timeout))
            self._adopt()
            runs = self._living_runs()
            deadline = time.monotonic() + timeout
            self._fleet.close({name: run.run for name, run in runs.items()}, self._files, seconds=timeout)
            for run in runs.values():
                _end(run)
            self._await_end(runs, max(_END_SECONDS, deadline - time.monotonic()))
            for run in runs.values():
                _signal_all(run, signal.SIGKILL)
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
                stack.enter_context(instance_record.held(files.lock, seconds=self._section.start_timeout))
            looks = [self._look(files, locked=True) for files in self._files.values()]
            require_gone(looks)
            checked(self._state_directories(), self._application_id, self._kind)
            for directory in self._state_directories():
                # As a start makes it: a moment that is measured there tells later what is younger. Where that fails there is no state, and no such moment.
                with suppress(OSError):
                    directory.mkdir(parents=True, exist_ok=True)
            return wipe(self._state_directories(), self._application_id, self._kind)

    def state_since(self, marks: Sequence[WipeMark]) -> StateSince:
        """By the directories, and by the files that its processes have open elsewhere."""
        own = {str(one) for one in checked(self._state_directories(), self._application_id, self._kind)}
        found, marked = since(mark for mark in marks if mark.place in own), {mark.place for mark in marks}
        unmarked = [f"{one}: the wipe noted no time of it" for one in sorted(own - marked)]
        elsewhere = self._elsewhere(own) if marks else ()
        begin = max((mark.at for mark in marks), default=0)
        others = since(WipeMark(place=one, at=begin) for one in elsewhere)
        named = [f"{one} has state of it, and is no state directory of this configuration" for one in others.fresh]
        return StateSince(fresh=found.fresh, stale=(*found.stale, *others.stale), unseen=(*found.unseen, *unmarked, *named))

    def _elsewhere(self, own: Collection[str]) -> tuple[str, ...]:
        """Directories with the name of the application's, other than its own, in whose task directories its processes have files open."""
        living = [member.pid for run in self._living_runs().values() for member in members_of(run)]
        pids = (*living, *(process.pid for process in self._not_on_record().values()))
        found = {str(one) for pid in pids for path in open_files(pid) if (one := task_directory_of(path, self._application_id)) is not None}
        return tuple(sorted(found - {*own, *(str(Path(one).resolve()) for one in own)}))

    def query(self, store: str) -> dict[str, object]:
        """All keys over all instances. While the application rebalances, asked again until the start timeout."""
        return self._fleet.query(store, seconds=self._section.start_timeout)

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:
        """Each key from the instance that has it."""
        return self._fleet.query_keys(questions, seconds=self._section.start_timeout if seconds is None else seconds)

    def topology(self) -> DescribedTopology | None:
        """Over the HTTP interfaces of the instances."""
        return self._fleet.topology()

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:
        """A process needs no rights that could be asked for. State that would not be removed is found here, before anything is, and so is an end that nobody
        will see.
        """
        try:
            if wipes:
                self._check_state_is_here()
        except (ConfigInvalid, Refused) as error:
            return (refused("local-state", error),)
        unseen = sorted(self._not_on_record()) if stops and not wipes else []
        return (
            (warning("unseen-end", f"{first_names(unseen)} was not started from here, and nobody will see how it ends", _TWICE),)
            if unseen
            else ()
        )

    def _check_state_is_here(self) -> None:
        """Raises ``Refused`` where its processes have state open that a wipe would not remove: they would go on with that beside new changelogs."""
        elsewhere = self._elsewhere({str(one) for one in checked(self._state_directories(), self._application_id, self._kind)})
        if elsewhere:
            raise Refused(
                f"its processes have local state open in {first_names(elsewhere)}, which is below no state_directory of this configuration: a restore "
                "would remove the wrong directory, and the application would go on with old state",
                next_step=f"set state_directory of its instance to {Path(elsewhere[0]).parent}",
                elsewhere=elsewhere,
            )

    def _state_directories(self) -> list[Path]:
        return [Path(instance.state_directory) for instance in self._section.instances]

    def _look(self, files: InstanceFiles, *, locked: bool = False) -> InstanceStatus:
        """An instance by records and processes, without asking it. ``locked``: the caller holds the instance's lock."""
        # Asked before the records are read: a start that ends in between then shows in the records.
        busy = not locked and instance_record.is_held(files.lock)
        started = files.started()
        if started is None:
            look = standing(files.name, InstanceState.GONE, "never started from here", clean=False, stopped_here=False)
        else:
            look = _look_at(files, started)
        if look.state is not InstanceState.GONE:
            return look
        if instance_record.is_held(files.alive):
            return standing(files.name, InstanceState.RUNNING, f"a process that is not on record holds {files.alive}")
        if busy:
            return standing(files.name, InstanceState.RUNNING, "being started or stopped")
        found = self._found(files.name)
        if found.doubt:
            return standing(files.name, InstanceState.UNKNOWN, found.doubt)
        return look if found.process is None else standing(files.name, InstanceState.RUNNING, f"{found.how}, not started from here")

    def _found(self, name: str) -> FoundProcess:
        """The instance where it runs without a record of ours."""
        instance = self._instances[name]
        argv = self._section.running_as_of(instance)
        if instance.pid_file is not None and (found := by_pid_file(Path(instance.pid_file), argv)) != NOT_THERE:
            return found
        return NOT_THERE if argv is None else by_command_line(argv)

    def _not_on_record(self) -> dict[str, Process]:
        """Instances that run and were not started from here."""
        begun = {name: files.started() for name, files in self._files.items()}
        on_record = {name for name, run in begun.items() if run is not None and (not _here(run) or members_of(run))}
        return {name: process for name in self._files.keys() - on_record if (process := self._found(name).process) is not None}

    def _adopt(self) -> None:
        """Put instances on record that were not started from here, so that they are ended as others are. Nobody waits for them: their end is never clean."""
        for name, process in self._not_on_record().items():
            files = self._files[name]
            files.home.mkdir(parents=True, exist_ok=True)
            now = time.time_ns() // 1_000_000
            files.write(Started(run=uuid.uuid4().hex, place=Place.here(), supervisor=NO_SUPERVISOR, process=process, at=now))

    def _living_runs(self) -> dict[str, Started]:
        found = {name: files.started() for name, files in self._files.items()}
        return {name: run for name, run in found.items() if run is not None and _here(run) and members_of(run)}

    def _await_end(self, runs: Mapping[str, Started], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(members_of(run) for run in runs.values()):
            time.sleep(_LOOK_SECONDS)


def _look_at(files: InstanceFiles, run: Started) -> InstanceStatus:
    where = f"pid {run.process.pid} on {run.place.host}"
    if not _here(run):
        # A pid of another machine that shares the directory can be neither seen nor signalled from here.
        return standing(files.name, InstanceState.UNKNOWN, f"{where}, which is not this machine; ask there")
    if members := members_of(run):
        outlived = [str(member.pid) for member in members] if run.process not in members else []
        return standing(files.name, InstanceState.RUNNING, f"{where} ended and left {', '.join(outlived)}" if outlived else where)
    ended = _witnessed(files, run)
    if ended is None and (run.supervisor.alive or is_hidden(run.process)):
        # Its supervisor waits for a process that this user may not see: /proc with hidepid, and a command that changes its user.
        return standing(files.name, InstanceState.UNKNOWN, f"{where} cannot be seen, and its supervisor has recorded no end")
    return standing(
        files.name,
        InstanceState.GONE,
        f"{where}: {ended or 'its end was not recorded'}",
        clean=ended is not None and ended.clean,
        reported_closed=ended is not None and ended.reported_closed,
        stopped_here=files.stop_request(run.run) is not None,
    )


def _witnessed(files: InstanceFiles, run: Started) -> Ended | None:
    # The supervisor needs a moment to write the end down; without it a clean close would look unseen.
    deadline = time.monotonic() + _RECORD_SECONDS
    while (ended := files.ended(run.run)) is None and run.supervisor.alive and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return ended or files.ended(run.run)


def _here(run: Started) -> bool:
    return run.place.visible_from(Place.here())


def _end(run: Started) -> None:
    if run.supervisor.alive:
        run.supervisor.signal(signal.SIGTERM)
    else:
        _signal_all(run, signal.SIGTERM)


def _signal_all(run: Started, number: signal.Signals) -> None:
    for member in members_of(run):
        try:
            member.signal(number)
        except PermissionError as error:
            raise Refused(
                f"not allowed to signal pid {member.pid}: it runs as another user",
                next_step="run this as the user that started the instance",
                pid=member.pid,
            ) from error


def launch(files: InstanceFiles, command: Sequence[str], environment: Mapping[str, str], working_directory: str | None, lock: int) -> None:
    """Start an instance; returns when it is on record. ``working_directory`` None is that of this process. ``lock`` is held until it is on record, even
    should this process be killed.

    Raises ``ConfigInvalid`` when the program cannot be started, ``ApplicationNotReady`` when its supervisor cannot. A program that starts and
    ends at once is a start: see the status.
    """
    _keep_log_small(files.log)
    order = Order(
        run=uuid.uuid4().hex,
        name=files.name,
        directory=str(files.directory),
        command=tuple(command),
        working_directory=working_directory or str(Path.cwd()),
        environment=scrubbed(environment),
        lock=lock,
    )
    supervisor = subprocess.run(
        # -P: without it Python would look for modules in the directory of the instance first.
        [sys.executable, "-P", "-m", "streams_recovery.application.supervisor"],
        input=codec.dumps(order),
        capture_output=True,
        cwd=files.home,
        env=scrubbed({"PYTHONPATH": str(Path(__file__).resolve().parents[2])}),
        pass_fds=(lock,),
        start_new_session=True,
        check=False,
    )
    if supervisor.returncode == 0:
        return
    if supervisor.stdout:
        raise ConfigInvalid(
            f"instance {files.name} cannot be started: {supervisor.stdout.decode(errors='replace')}",
            next_step="check the command and the working directory in the configuration, and that the program is installed",
            instance=files.name,
            command=order.command,
        )
    raise ApplicationNotReady(
        f"the supervisor of instance {files.name} failed: {supervisor.stderr.decode(errors='replace').strip()[-300:]}",
        next_step=f"see {files.supervisor_log}, then try again",
        instance=files.name,
    )


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """The configured environment over the few variables that are passed on from this process."""
    return {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **environment}


def _keep_log_small(log: Path) -> None:
    # Only between runs: the program holds the file open while it lives.
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
