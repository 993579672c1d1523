"""What to do about a lock that a run holds. A run from which it is taken stops at its next step, and until then two may change the same topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streams_recovery.core.remedies.remedy import Remedy, RemedyKind
from streams_recovery.core.words import command

TAKE_LOCK: Final = RemedyKind(
    id="lock-take",
    condition="The run that holds the lock is dead, by the proof that the text names: its process is gone, or no task of its run in Airflow is left to run, "
    "and no Spark application of it runs.",
)
END_RECORD: Final = RemedyKind(
    id="lock-end-record", condition="The newest record of the lock cannot be read, and no run works on the application."
)


NO_RUN_LEFT: Final = "no command works on the application, and no task in Airflow is running, queued or waiting for an approval"
# The machine and the pid of a run that is one process.
Place = tuple[str, int]


def proof_of_death(owner: str, place: Place | None) -> str:
    """How a person knows that the run of this ``owner`` is dead. ``place`` is None for a run of many processes, such as one of Airflow."""
    if place is not None:
        host, pid = place
        return f"process {pid} is gone on {host} (`ps -p {pid}` there, in its container if it ran in one), and no Spark application that it started is at work"
    return (
        f"in Airflow the run that {owner!r} names has failed or is gone, with no task that is running, queued, up for retry or waiting for an approval, and no "
        "Spark application of it is at work; for a command or a service its process is gone"
    )


def take_lock(name: str, owner: str, place: Place | None, *, options: Sequence[str] = ()) -> Remedy:
    """Take the lock from a run. ``name`` is the configured one, empty where no command can be named; ``options`` name the repository that the lock is in."""
    return Remedy(
        kind=TAKE_LOCK,
        text=f"wait for that run to end, or stop it. Take the lock from it only when it is dead, which is proven when {proof_of_death(owner, place)}",
        commands=(command("unlock", name, owner, *options),) if name else (),
    )


def end_record(name: str, key: str, *, options: Sequence[str] = ()) -> Remedy:
    """End a newest record that cannot be read."""
    return Remedy(
        kind=END_RECORD,
        text=f"it is taken over when it is older than a lease, after half an hour. To go on sooner make sure that no run works on the application: "
        f"{NO_RUN_LEFT}. Then end this record, and find out who wrote it",
        commands=(command("unlock", name, key, *options),) if name else (),
    )


def examples() -> tuple[Remedy, ...]:
    """For the page of remedies, each made as people get theirs."""
    return (
        take_lock("orders", "savepoint scheduled__2026-11-21T10_00_00_00_00-6f2c0f7e", None),
        take_lock("orders", "restore 3b9f", ("worker-2", 4711)),
        end_record("orders", "orders/locks/00000042"),
    )
