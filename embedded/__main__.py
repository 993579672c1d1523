"""``python -m embedded demo|up|down``: see the Makefile."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from embedded.stack import PROJECT
from streams_recovery.core.errors import RecoveryError

LIMIT_SECONDS = 720


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="embedded", description="The whole stack on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("demo", "lose an application and bring it back"), ("up", "leave the stack running")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--guarantee", choices=["exactly_once_v2", "at_least_once"], default="exactly_once_v2")
    commands.add_parser("down", help="stop what `up` started")
    arguments = parser.parse_args()
    # SIGTERM unwinds like Ctrl-C, so that everything started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if arguments.command == "demo":
            return _demo(arguments.guarantee)
        from embedded.running import down, up  # noqa: PLC0415 - the demonstration does not need it

        return up(PROJECT / "build" / "stack", arguments.guarantee) if arguments.command == "up" else down(PROJECT / "build" / "stack")
    except RecoveryError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything was stopped\n")
        return 130


def _demo(guarantee: str) -> int:
    from embedded.demo.story import play  # noqa: PLC0415
    from embedded.demo.telling import Teller  # noqa: PLC0415

    directory = PROJECT / "build" / "demo"
    directory.mkdir(parents=True, exist_ok=True)
    teller = Teller()
    began = time.monotonic()
    report = play(directory, guarantee, teller)
    report.write(directory / "report.json")
    teller.summary(report)
    seconds = time.monotonic() - began
    teller.say(f"report in {directory / 'report.json'}; {seconds:.0f} s in all")
    return 0 if report.good and seconds < LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
