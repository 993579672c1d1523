"""Params that several DAGs ask for, each with the schema of what it accepts. What may be left out may be empty, and the form does not mark it as required."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import Param

from streams_recovery.core.ids import PATTERN
from streams_recovery.core.names import NAME
from streams_recovery.core.offsets import strategies

MOMENT_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}.*(Z|[+-]\d{2}:?\d{2}| [A-Za-z][A-Za-z0-9_+/-]+)$"
# No control characters, and none that turn the direction of writing or have no width.
_SEEN: Final = r"^[^\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+$"
# Of a DAG that is there once for all applications: a run that waits for its approval keeps no other application from being restored. Two runs of one
# application are kept apart by its lock.
RUNS: Final = 32


def application(names: Sequence[str], *, title: str = "Application", description: str | None = None) -> Param:
    """Which of the configured applications."""
    return Param(names[0] if len(names) == 1 else None, type="string", enum=list(names), title=title, description=description)


def choice(default: str, title: str, labels: Mapping[str, str], description: str | None = None) -> Param:
    """One of several values, each with what a person is shown for it."""
    return Param(default, type="string", enum=list(labels), values_display=dict(labels), title=title, description=description)


def other_application(names: Sequence[str], title: str, description: str) -> Param:
    """Another of the configured applications, or none."""
    return Param(None, type=["null", "string"], enum=[None, *names], title=title, description=description)


def savepoint(*others: str, title: str = "Savepoint", description: str = "latest: the newest exact one") -> Param:
    """A savepoint's id, ``latest``, or another word."""
    words = "|".join(("latest", *others))
    return Param("latest", type="string", pattern=f"^({words}|{PATTERN})$", title=title, description=description)


def text(title: str, description: str | None = None, *, pattern: str | None = None, longest: int = 500) -> Param:
    """A text that may be left out."""
    schema: dict[str, Any] = {"pattern": pattern} if pattern else {}
    return Param(None, type=["null", "string"], maxLength=longest, title=title, description=description, **schema)


def switch(title: str, description: str | None = None, *, default: bool = False) -> Param:
    """Yes or no."""
    return Param(default=default, type="boolean", title=title, description=description)


def topics(title: str, description: str) -> Param:
    """Names of topics, one a line."""
    return Param(None, type=["null", "array"], items={"type": "string", "pattern": f"^{NAME}$"}, title=title, description=description)


def groups(title: str, description: str) -> Param:
    """Ids of consumer groups, one a line. Kafka allows any character in them; a form takes none that a person could not see."""
    items = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": _SEEN}
    return Param(None, type=["null", "array"], items=items, title=title, description=description)


def moment(title: str, description: str) -> Param:
    """A date and a time, with its time zone."""
    return Param(
        None, type=["null", "string"], format="date-time", maxLength=80, pattern=MOMENT_PATTERN, title=title, description=description
    )


def replace() -> Param:
    """Whether state that is there may go."""
    return switch("Replace running state", "Without it, internal topics that hold records stop the run. Needs the confirmation below.")


def delete(which: str) -> Param:
    """Topics that go although nothing but their names says whose they are."""
    return topics("Internal topics to delete", f"{which} and are really this application's. One a line.")


def safety() -> Param:
    """What becomes of what is there."""
    return choice(
        "required",
        "Safety savepoint",
        {
            "required": "Required: nothing is replaced without it",
            "best_effort": "Best effort: go on when it fails",
            "skip": "Skip: no way back",
        },
        "Of what is there now, taken first. Anything but required needs the confirmation below.",
    )


def offsets() -> Param:
    """Where the application reads on in its inputs after a restore. Empty is as configured."""
    return _offsets(
        None,
        f"Empty: as configured. {strategies.HELP}. Files are in the configuration directory. Only exact agrees with the restored state; any other needs "
        "the confirmation below.",
    )


def first_offsets() -> Param:
    """Where the application begins in its inputs when it has no state."""
    return _offsets("earliest", f"{strategies.REBUILD_HELP}. Files are in the configuration directory.")


def _offsets(default: str | None, description: str) -> Param:
    pattern = f"^(|{strategies.PATTERN})$"
    return Param(default, type=["null", "string"], maxLength=100_000, pattern=pattern, title="Input offsets", description=description)


def allow_ahead(what: str = "a savepoint") -> Param:
    """Whether input may be counted twice."""
    return switch(f"Allow {what} that may count some input twice")


def allow_damaged(what: str = "a savepoint of damaged state") -> Param:
    """Whether damaged state may be brought back."""
    return switch(f"Allow {what}")


def compare_keys() -> Param:
    """Whether keys are compared although records are equal."""
    return switch(
        "Compare keys", "Compares every changelog key by key too, although its records were found equal. Takes a second Spark job."
    )


def confirm(description: str = "Type the application id.") -> Param:
    """The application id, typed."""
    return text("Confirmation", description, longest=249)


def reason(description: str = "Kept with the evidence of the restore.") -> Param:
    """Why."""
    return text("Reason", description)
