"""Playing what runs an application: what each verb answers, field by field. Dry only ``status`` and what the port can ask; for real every verb, under the
application's lock, and what was paused or stopped is brought back whatever was answered. Nothing is wiped on the word of the programs alone.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from streams_recovery.application.port import InstanceState, InstanceStatus, StopReport, WipeReport
from streams_recovery.config.runs import CommandRuns
from streams_recovery.core import codec
from streams_recovery.core.checks.run_answers import Wrong, wrong_after, wrong_sense
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, RecoveryError
from streams_recovery.core.group_members import Roll
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.preflight.findings import blocking
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.bring_down import empty_group, require_known_members
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.ownership import refuse_stop, role_by_logs
from streams_recovery.operations.renewed_lock import HeldLock, held_lock, require_lock
from streams_recovery.operations.unfinished import refuse_if_unfinished

T = TypeVar("T")
VERBS: Final = ("status", "pause", "resume", "stop", "wipe", "start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A verb and its answer. ``did`` is what was seen, ``error`` the reason why there is no answer, ``exit_code`` that of the error."""

    verb: str
    did: str
    seconds: float
    wrong: tuple[Wrong, ...] = ()
    error: str = ""
    exit_code: int = 0

    @property
    def good(self) -> bool:
        """True when it was answered, and rightly."""
        return not self.wrong and not self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsCheck:
    """All that was played, and the verbs that were not tried, each with the reason."""

    application_id: str
    kind: str
    played: tuple[Played, ...]
    not_tried: Mapping[str, str]

    @property
    def exit_code(self) -> int:
        """0 when all was right, 2 when something was answered wrongly, else that of the first error."""
        wrong = ConfigInvalid.exit_code if any(one.wrong for one in self.played) else 0
        return wrong or next((one.exit_code for one in self.played if one.error), 0)


@dataclass(slots=True)
class _Play:
    recovery: RecoveryContext
    names: tuple[str, ...] = ()
    played: list[Played] = field(default_factory=list)

    def verb(self, verb: str, call: Callable[[], T], judged: Callable[[T], tuple[str, tuple[Wrong, ...]]]) -> T | None:
        """Play one verb. What it raises is noted; the caller goes on."""
        began = time.monotonic()
        try:
            result = call()
            did, wrong = judged(result)
        except RecoveryError as error:
            found = error.facts.get("wrong")
            wrong = found if isinstance(found, tuple) else ()
            taken = time.monotonic() - began
            self.played.append(
                Played(
                    verb=verb,
                    did="",
                    seconds=taken,
                    wrong=wrong,
                    error=f"{error.reason}. Next: {error.next_step}",
                    exit_code=error.exit_code,
                )
            )
            return None
        self.played.append(Played(verb=verb, did=did, seconds=time.monotonic() - began, wrong=wrong))
        return result

    def status(self) -> tuple[InstanceStatus, ...]:
        found = self.verb("status", self.recovery.application.status, lambda found: (_said(found), wrong_sense(_plain(found))))
        self.names = tuple(one.name for one in found or ())
        return found or ()

    def check(self, not_tried: Mapping[str, str]) -> RunsCheck:
        kind = self.recovery.config.runs.kind
        return RunsCheck(application_id=self.recovery.application_id, kind=kind, played=tuple(self.played), not_tried=dict(not_tried))


def check_dry(recovery: RecoveryContext) -> RunsCheck:
    """Ask what can be asked without changing anything: ``status``, whether the programs are there, and what the port finds before a stop and a wipe."""
    play = _Play(recovery)
    play.status()
    chosen = recovery.config.runs.chosen
    if isinstance(chosen, CommandRuns):
        play.verb(
            "programs",
            lambda: _missing(chosen),
            lambda found: (f"{len(_programs(chosen))} programs can be run" if not found else "", found),
        )
    else:
        play.verb("preflight", lambda: blocking(recovery.application.preflight(stops=True, wipes=True)), _found)
    why = "only with --for-real: it changes something"
    return play.check({verb: recovery.config.no_pause_because or why if verb in ("pause", "resume") else why for verb in VERBS[1:]})


def check_real(recovery: RecoveryContext, run_id: str, *, wipe: bool) -> RunsCheck:
    """Play every verb, in an order that leaves the application as it was. Raises ``LockHeld``, ``Refused``, ``UnknownMembers``, ``ApplicationNotReady`` where
    it does not run; nothing was done then.
    """
    with held_lock(recovery, f"check {run_id}", purpose=f"check of what runs {recovery.application_id}") as held:
        return _played(recovery, held, run_id, wipe=wipe)


def _played(recovery: RecoveryContext, ticket: HeldLock, run_id: str, *, wipe: bool) -> RunsCheck:
    refuse_if_unfinished(recovery)
    quiesce_record.resume_abandoned(recovery)
    refuse_stop(recovery.application)
    require_known_members(recovery)
    play = _Play(recovery)
    not_tried: dict[str, str] = {}
    before = play.status()
    if not before or any(one.state is not InstanceState.RUNNING for one in before):
        raise ApplicationNotReady(
            f"not every instance of {recovery.application_id} runs: {_said(before)}",
            next_step="start it, and run this again: what is down before could not be told from what was brought down",
        )
    if (why_not := recovery.config.no_pause_because) is None:
        _pause(play, run_id)
    else:
        not_tried = dict.fromkeys(("pause", "resume"), why_not)
    return play.check({**not_tried, **_stop(play, ticket, run_id, wipe=wipe)})


def _pause(play: _Play, run_id: str) -> None:
    recovery, names = play.recovery, play.names
    quiesce_record.begin(recovery, run_id, QuiesceMode.PAUSE, names)
    try:
        play.verb("pause", recovery.application.pause, lambda _: _judged(play, "pause"))
    finally:
        play.verb("resume", recovery.application.resume, lambda _: _judged(play, "resume"))
        # A pause that was answered wrongly may hold all the same.
        quiesce_record.resume(recovery, QuiesceMode.PAUSE, names)
        quiesce_record.let_go(recovery, run_id, QuiesceMode.PAUSE, names)


def _stop(play: _Play, ticket: HeldLock, run_id: str, *, wipe: bool) -> dict[str, str]:
    """Stop, wipe if that is asked for, and start. Returns why there was no wipe."""
    recovery, names, role = play.recovery, play.names, role_by_logs(play.recovery.application)
    run = f"{run_id}-stop"
    known = require_known_members(recovery)
    quiesce_record.begin(recovery, run, QuiesceMode.STOP, names)

    def start() -> None:
        quiesce_record.check_may_resume(recovery, ticket)
        quiesce_record.resume(recovery, QuiesceMode.STOP, names, ran=role)

    try:
        timeout = recovery.config.runs.chosen.stop_timeout
        report = play.verb(
            "stop",
            lambda: recovery.application.stop(timeout=timeout),
            lambda found: (
                _said(found.instances),
                (*wrong_sense(_plain(found.instances)), *wrong_after("stop", _plain(found.instances), names)),
            ),
        )
        if not wipe:
            return {"wipe": "only with --wipe: its local state would be read again from its changelogs"}
        if report is None or not report.gone or not play.played[-1].good:
            return {"wipe": "the stop was not answered rightly, and whatever a wipe removes rests on that answer"}
        play.verb(
            "wipe",
            lambda: _wiped(recovery, ticket, report, known),
            lambda found: (f"{len(found.removed)} directories removed", _left(found.remaining)),
        )
        return {}
    finally:
        play.verb("start", start, lambda _: _judged(play, "start"))
        if quiesce_record.working(recovery, names) is not None:
            quiesce_record.let_go(recovery, run, QuiesceMode.STOP, names)


def _wiped(recovery: RecoveryContext, ticket: HeldLock, report: StopReport, known: Roll) -> WipeReport:
    # What is played here are programs that may be wrong: the group says whether they have told the truth.
    empty_group(recovery, report, known)
    require_lock(recovery, ticket)
    return recovery.application.wipe_state()


def _judged(play: _Play, verb: str) -> tuple[str, tuple[Wrong, ...]]:
    found = play.recovery.application.status()
    return _said(found), wrong_after(verb, _plain(found), play.names)


def _plain(instances: Sequence[InstanceStatus]) -> list[Mapping[str, Any]]:
    plain: list[Mapping[str, Any]] = codec.encode(list(instances))
    return plain


def _said(instances: Sequence[InstanceStatus]) -> str:
    return ", ".join(f"{one.name} {one.streams_state or one.state} ({one.detail})" for one in instances) or "no instance"


def _found(found: Sequence[object]) -> tuple[str, tuple[Wrong, ...]]:
    wrong = tuple(Wrong(where="preflight", expected="nothing that keeps it from being stopped and wiped", found=str(one)) for one in found)
    return "" if wrong else "nothing keeps it from being stopped and wiped", wrong


def _left(remaining: Sequence[str]) -> tuple[Wrong, ...]:
    return tuple(Wrong(where="remaining", expected="no directory", found=one) for one in remaining)


def _programs(section: CommandRuns) -> dict[str, str]:
    return {verb: argv[0] for verb, argv in section if isinstance(argv, tuple)}


def _missing(section: CommandRuns) -> tuple[Wrong, ...]:
    """Programs that cannot be run, by the verb."""
    return tuple(
        Wrong(where=f"runs.command.{verb}", expected="a program that this user may run", found=program)
        for verb, program in _programs(section).items()
        if shutil.which(program, path=section.environment.get("PATH")) is None or Path(program).is_dir()
    )
