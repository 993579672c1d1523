"""An application behind programs of the user's own: systemd, kubectl, docker compose, whatever runs it.

Every verb is an argument list, run without a shell. ``status`` and ``stop`` print a JSON list of instances with the fields of
``InstanceStatus``, ``wipe`` a JSON object with the fields of ``WipeReport``, ``query`` (``{store}`` stands for the store) a JSON object of all
keys. Exit status 0 means done.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from streams_recovery.application.port import InstanceStatus, StopReport, WipeReport
from streams_recovery.application.processes.settings import CommandSettings
from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Refused

_INHERITED = ("PATH", "HOME", "LANG", "TMPDIR")


class CommandApplication:
    """See the port. What the programs report is believed: proving that an instance is gone is their work."""

    def __init__(self, settings: CommandSettings) -> None:
        self._settings = settings

    def status(self) -> tuple[InstanceStatus, ...]:
        """What the status program prints."""
        return self._instances("status", self._run("status"))

    def stop(self, *, timeout: float) -> StopReport:
        """Run the stop program, which gets ``STOP_TIMEOUT_SECONDS`` in its environment."""
        printed = self._run("stop", {"STOP_TIMEOUT_SECONDS": f"{timeout:g}"}, seconds=timeout + self._settings.timeout)
        return StopReport(instances=self._instances("stop", printed))

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Run the start program."""
        self._run("start", environment or {})

    def pause(self) -> None:
        """Run the pause program."""
        self._run("pause")

    def resume(self) -> None:
        """Run the resume program."""
        self._run("resume")

    def wipe_state(self) -> WipeReport:
        """Run the wipe program."""
        report: WipeReport = codec.decode(WipeReport, _json(self._run("wipe"), "wipe"), where="the output of wipe")
        return report

    def query(self, store: str) -> dict[str, object]:
        """Run the query program."""
        found = _json(self._run("query", replace={"{store}": store}), "query")
        if not isinstance(found, dict):
            raise ConfigInvalid("the query program did not print a JSON object", next_step="correct runs.command.query", verb="query")
        return found

    def _instances(self, verb: str, printed: str) -> tuple[InstanceStatus, ...]:
        instances: tuple[InstanceStatus, ...] = codec.decode(
            tuple[InstanceStatus, ...], _json(printed, verb), where=f"the output of {verb}"
        )
        return instances

    def _run(
        self,
        verb: str,
        environment: Mapping[str, str] | None = None,
        *,
        replace: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> str:
        command = self._settings.verbs.get(verb)
        if command is None:
            raise Refused(f"this application offers no way to {verb}", next_step=f"set runs.command.{verb} in the configuration", verb=verb)
        argv = [_filled(argument, replace or {}) for argument in command]
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            done = subprocess.run(
                argv,
                env={**inherited, **self._settings.environment, **(environment or {})},
                capture_output=True,
                text=True,
                timeout=seconds or self._settings.timeout,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as error:
            raise ConfigInvalid(f"{argv[0]} cannot be run: {error}", next_step=f"correct runs.command.{verb}", verb=verb) from error
        except subprocess.TimeoutExpired as error:
            raise ApplicationNotReady(
                f"{verb} took longer than {error.timeout:.0f} s", next_step="raise timeout_seconds", verb=verb
            ) from error
        if done.returncode:
            raise ApplicationNotReady(
                f"{verb} ended with status {done.returncode}: {done.stderr.strip()[-300:]}",
                next_step="see what the program says",
                verb=verb,
            )
        return done.stdout


def _filled(argument: str, replace: Mapping[str, str]) -> str:
    for placeholder, value in replace.items():
        argument = argument.replace(placeholder, value)
    return argument


def _json(printed: str, verb: str) -> Any:
    try:
        return json.loads(printed)
    except ValueError as error:
        raise ConfigInvalid(
            f"{verb} did not print JSON: {printed[:200]!r}", next_step=f"correct the program in runs.command.{verb}", verb=verb
        ) from error
