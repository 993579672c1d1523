"""``python -m embedded demo|up|down``: see the Makefile."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from embedded.stack import PROJECT
from embedded.stores import FILES, KINDS
from streams_recovery.core.errors import RecoveryError

# Of each strategy played by itself; all of them have their sum.
LIMIT_SECONDS = {"full": 480, "undo": 480, "rebuild": 420, "run": 420, "pitr": 720, "reprocess": 720, "clone": 720}
ORDERS, FEWEST_ORDERS = 200_000, 4_000


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="embedded", description="The whole stack on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("demo", "lose an application and bring it back"), ("up", "leave the stack running")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--guarantee", choices=["exactly_once_v2", "at_least_once"], default="exactly_once_v2")
        if name == "up":
            command.add_argument(
                "--show", choices=["running", "all"], default="running", help="all: two savepoints, a moment, and a drill too"
            )
        if name == "demo":
            command.add_argument("--strategy", choices=[*LIMIT_SECONDS, "all"], default="full")
            command.add_argument(
                "--limit", type=float, metavar="SECONDS", help="longer counts as failed (default: 7 to 12 minutes a strategy)"
            )
            command.add_argument(
                "--spark", choices=["local", "cluster"], default="local", help="cluster: a master and two workers on this machine"
            )
            command.add_argument(
                "--storage", choices=KINDS, default=FILES, help="where savepoints are: files, or a server as a cloud has it"
            )
            command.add_argument("--encrypted", action="store_true", help="records are encrypted before they are stored")
            command.add_argument(
                "--orders", type=_orders, default=ORDERS, metavar="N", help="orders that `full` processes (default: %(default)s)"
            )
    commands.add_parser("down", help="stop what `up` started")
    arguments = parser.parse_args()
    # SIGTERM unwinds like Ctrl-C, so that everything started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if arguments.command == "demo":
            return _demo(arguments)
        from embedded.running import down, up  # noqa: PLC0415 - the demonstration does not need it

        directory = PROJECT / "build" / "stack"
        return up(directory, arguments.guarantee, everything=arguments.show == "all") if arguments.command == "up" else down(directory)
    except RecoveryError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything was stopped\n")
        return 130


def _orders(text: str) -> int:
    # With fewer, keys would not come again, and a savepoint would have nothing to add to the one before it.
    if int(text) < FEWEST_ORDERS:
        raise argparse.ArgumentTypeError(f"{FEWEST_ORDERS} orders are the fewest")
    return int(text)


def _demo(arguments: argparse.Namespace) -> int:
    # `down` has to work also when something is broken that only the demonstration needs.
    from embedded.demo.story import play  # noqa: PLC0415
    from embedded.demo.telling import Teller, write  # noqa: PLC0415

    directory = PROJECT / "build" / "demo"
    directory.mkdir(parents=True, exist_ok=True)
    teller = Teller()
    began = time.monotonic()
    strategies = list(LIMIT_SECONDS) if arguments.strategy == "all" else [arguments.strategy]
    cluster, orders = arguments.spark == "cluster", arguments.orders
    how = {"cluster": cluster, "storage": arguments.storage, "encrypted": arguments.encrypted}
    reports = play(directory, arguments.guarantee, strategies, teller, orders=orders, **how)
    write(reports, directory / "report.json")
    seconds, limit = time.monotonic() - began, arguments.limit or sum(LIMIT_SECONDS[name] for name in strategies)
    teller.say(f"report in {directory / 'report.json'}; {seconds:.0f} s in all")
    if seconds >= limit:
        teller.say(f"[bold]too slow[/bold]: more than {limit:.0f} s counts as failed; run it again with nothing else on this machine")
    return 0 if all(report.good for report in reports) and seconds < limit else 1


if __name__ == "__main__":
    sys.exit(main())
