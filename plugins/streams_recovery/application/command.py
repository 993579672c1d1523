"""An application behind programs of the user's own: systemd, kubectl, docker compose, whatever runs it.

Every verb is an argument list, run without a shell, with nothing in its environment but what is configured and a few variables of the login. What
each finds and prints, and its exit status, is in docs/programs.md. Of its output 32 MiB are read.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from streams_recovery.application.http_control import MAX_STORE_BYTES, json_object, too_large
from streams_recovery.application.instances import await_all
from streams_recovery.application.local_state import marked, since
from streams_recovery.application.port import (
    AnswerTooLarge,
    InstanceStatus,
    NoKeyRoute,
    StateSince,
    StopReport,
    WipeMark,
    WipeReport,
    require_gone,
)
from streams_recovery.application.process import scrubbed
from streams_recovery.config.fields import Argv
from streams_recovery.config.runs import CommandRuns
from streams_recovery.core import codec
from streams_recovery.core.checks.run_answers import wrong_form
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Damaged, PermanentError, Refused
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, answer_of

if TYPE_CHECKING:
    from streams_recovery.core.rollout.described import DescribedTopology

TOO_LARGE, NO_KEY_ROUTE = 4, 5
_ERRORS: Mapping[int, type[PermanentError]] = {
    ConfigInvalid.exit_code: ConfigInvalid,
    Refused.exit_code: Refused,
    TOO_LARGE: AnswerTooLarge,
    NO_KEY_ROUTE: NoKeyRoute,
}
_COMPLAINT_BYTES = 4096
_MOST_WRONG: Final = 10
CONFIRM_SECONDS: Final = 1.0
# The process groups of programs that run now.
_RUNNING: Final[set[int]] = set()

# What a program need not tell of an instance.
_MAY_LACK = {one.name: codec.encode(one.default) for one in fields(InstanceStatus) if one.default is not MISSING}


class CommandApplication:
    """The port for programs of the user. What they report is believed: proving that an instance is gone, and that it closed cleanly, is their work."""

    def __init__(self, section: CommandRuns, application_id: str) -> None:
        self._section = section
        self._environment = {"APPLICATION_ID": application_id, **section.environment}

    @property
    def can_pause(self) -> bool:
        return self._section.no_pause_because is None

    def status(self) -> tuple[InstanceStatus, ...]:
        """The instances that the status program prints. Raises ``ConfigInvalid`` when it names no instance: an application without any cannot be told from
        one that was not found.
        """
        return _instances("status", self._run("status", self._section.status))

    def stop(self, *, timeout: float) -> StopReport:
        """Run the stop program, which has ``timeout`` seconds and the configured time-out on top."""
        printed = self._run("stop", self._section.stop, {"STOP_TIMEOUT_SECONDS": f"{timeout:g}"}, more_seconds=timeout)
        return StopReport(instances=_instances("stop", printed))

    def require_same_version(self) -> None:
        """Nothing is known of what the start program brings."""

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Run the start program."""
        self._run("start", self._section.start, environment)

    def pause(self) -> None:
        """Run the pause program, then see that every instance says it is paused."""
        self._run("pause", self._section.pause)
        await_all(self.status, "not paused", paused=True)

    def resume(self) -> None:
        """Run the resume program, then see that no instance says it is paused."""
        if self._section.resume is None:
            await_all(self.status, "paused, and there is no way to resume", paused=False, seconds=0)
            return
        self._run("resume", self._section.resume)
        await_all(self.status, "still paused", paused=False)

    def wipe_state(self) -> WipeReport:
        """Run the wipe program, unless ``status`` shows an instance that is not gone."""
        require_gone(self.status())
        report: WipeReport = _decoded(WipeReport, "wipe", self._run("wipe", self._section.wipe), may_lack={"marks": []})
        if report.marks:
            return report
        # Directories of this machine are seen from here too; when a place on another machine was created is unknown.
        local = [Path(one) for one in report.removed if one.startswith("/") and Path(one).parent.is_dir()]
        return replace(report, marks=tuple(mark for one in local if (mark := marked(one, one.parent)) is not None))

    def state_since(self, marks: Sequence[WipeMark]) -> StateSince:
        """By directories that are seen from here."""
        found = since(marks)
        return found if marks else replace(found, unseen=("the wipe program named no directory that can be seen from here",))

    def query(self, store: str) -> dict[str, object]:
        """Run the query program."""
        if self._section.query is None:
            raise NoKeyRoute(
                "this application offers no way to query", next_step="set runs.command.query in the configuration", store=store
            )
        return json_object(self._run("query", self._section.query, replace={"{store}": store}), where="the query program")

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:  # noqa: ARG002
        """Run the program for queries by key, once for all of them. It has the configured time."""
        if self._section.query_keys is None:
            raise NoKeyRoute("this application offers no queries by key", next_step="set runs.command.query_keys in the configuration")
        printed = self._run("query_keys", self._section.query_keys, given=json.dumps(codec.encode(list(questions))).encode())
        return _answers(printed, len(questions))

    def topology(self) -> DescribedTopology | None:
        """Its programs have no verb for that; ``application.topology_command`` is another one."""
        return None

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:  # noqa: ARG002
        """Whatever its programs need, they say when they are run."""
        return ()

    def _run(
        self,
        verb: str,
        command: Argv | None,
        environment: Mapping[str, str] | None = None,
        *,
        replace: Mapping[str, str] | None = None,
        more_seconds: float = 0,
        given: bytes = b"",
    ) -> bytes:
        if command is None:
            raise Refused(f"this application offers no way to {verb}", next_step=f"set runs.command.{verb} in the configuration", verb=verb)
        argv = [_filled(argument, replace or {}) for argument in command]
        laid_over = {**self._environment, **(environment or {})}
        return run_program(argv, laid_over, verb=verb, seconds=self._section.timeout_seconds + more_seconds, given=given)


def run_program(
    argv: list[str],
    environment: Mapping[str, str],
    *,
    verb: str,
    seconds: float,
    given: bytes = b"",
    confirm: Callable[[], object] = lambda: None,
) -> bytes:
    """Run a program that finds ``given`` on its standard input. Returns what it printed. Raises ``ConfigInvalid`` when it cannot be run or says so,
    ``Refused`` when it refuses, else ``ApplicationNotReady``. When the time is up, or ``confirm``, which is asked each ``CONFIRM_SECONDS``, raises an error, it
    is killed with everything it started.
    """
    # Files, not pipes: a start program may leave a service behind that holds its output open for ever.
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complaint, tempfile.TemporaryFile() as asked:
        asked.write(given)
        asked.seek(0)
        status = _ended(argv, environment, (asked, printed, complaint), verb, seconds, confirm)
        answer, reason = _beginning(printed, MAX_STORE_BYTES + 1), _end(complaint, _COMPLAINT_BYTES).decode(errors="replace").strip()
    if status == 0:
        if len(answer) > MAX_STORE_BYTES:
            raise too_large(f"the {verb} program", MAX_STORE_BYTES)
        return answer
    kind = _ERRORS.get(status, ApplicationNotReady)
    raise kind(
        f"{verb} ended with status {status}: {reason[-500:]}",
        next_step=f"see what {argv[0]} says",
        verb=verb,
    )


def _beginning(file: IO[bytes], most: int) -> bytes:
    file.seek(0)
    return file.read(most)


def _end(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most))
    return file.read(most)


def end_programs() -> None:
    """Kill every program that runs now, with everything that it started. For a process that is told to end and goes on for a while: its programs would outlive
    it, since each has a session of its own.
    """
    for group in tuple(_RUNNING):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _ended(
    argv: list[str],
    environment: Mapping[str, str],
    files: tuple[IO[bytes], IO[bytes], IO[bytes]],
    verb: str,
    seconds: float,
    confirm: Callable[[], object],
) -> int:
    given, printed, complaint = files
    try:
        program = subprocess.Popen(argv, env=scrubbed(environment), stdin=given, stdout=printed, stderr=complaint, start_new_session=True)
    except OSError as error:
        raise ConfigInvalid(f"{argv[0]} cannot be run: {error}", next_step=f"correct the command for {verb}", verb=verb) from error
    _RUNNING.add(program.pid)
    try:
        return _waited(program, seconds, confirm)
    except BaseException as error:
        # Also when this process is being ended: no process would be left to wait for the program. One that has just ended hides no error.
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise ApplicationNotReady(
            f"{verb} took longer than {seconds:.0f} s and was ended", next_step="see why, or raise timeout_seconds", verb=verb
        ) from error
    finally:
        _RUNNING.discard(program.pid)


def _waited(program: subprocess.Popen[bytes], seconds: float, confirm: Callable[[], object]) -> int:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return program.wait(timeout=min(CONFIRM_SECONDS, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                raise
            confirm()


def _instances(verb: str, printed: bytes) -> tuple[InstanceStatus, ...]:
    if wrong := wrong_form(_read(verb, printed)):
        raise ConfigInvalid(
            f"the {verb} program answered wrongly: {'; '.join(map(str, wrong[:_MOST_WRONG]))}",
            next_step=f"correct the program in runs.command.{verb}; docs/programs.md has every field",
            verb=verb,
            wrong=wrong,
        )
    instances: tuple[InstanceStatus, ...] = _decoded(tuple[InstanceStatus, ...], verb, printed, may_lack=_MAY_LACK)
    return instances


def _read(verb: str, printed: bytes) -> Any:
    try:
        return json.loads(printed)
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(
            f"the output of {verb} is not JSON: {error}", next_step=f"correct the program in runs.command.{verb}", verb=verb
        ) from error


def _answers(printed: bytes, count: int) -> tuple[KeyAnswer, ...]:
    where = "the query_keys program"
    try:
        found = json.loads(printed)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{where} did not print JSON: {error}", next_step="correct runs.command.query_keys", where=where) from error
    listed = found if isinstance(found, list) else []
    answers = [answer_of(one, instance=str(one.get("instance", ""))[:100], where=where) for one in listed if isinstance(one, dict)]
    known = tuple(one for one in answers if one is not None)
    if len(known) != count or len(listed) != count:
        raise Damaged(
            f"{where} did not print an answer to each of {count} questions", next_step="correct runs.command.query_keys", where=where
        )
    return known


def _decoded(kind: Any, verb: str, printed: bytes, *, may_lack: Mapping[str, Any] | None = None) -> Any:
    found = _read(verb, printed)
    try:
        if may_lack and isinstance(found, list):
            found = [{**may_lack, **item} if isinstance(item, dict) else item for item in found]
        elif may_lack and isinstance(found, dict):
            found = {**may_lack, **found}
        return codec.decode(kind, found, where=f"the output of {verb}")
    except Damaged as error:
        raise ConfigInvalid(error.reason, next_step=f"correct the program in runs.command.{verb}", verb=verb) from error


def _filled(argument: str, replace: Mapping[str, str]) -> str:
    for placeholder, value in replace.items():
        argument = argument.replace(placeholder, value)
    return argument
