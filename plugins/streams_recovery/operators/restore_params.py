"""Params that several DAGs of restores ask for, each with the schema of what it accepts."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param

OFFSETS_PATTERN = r"^(|exact|earliest|latest|timestamp:.{1,40}|duration:P[0-9DTHMS]{1,40}|shift:[+-]?\d{1,18}|specific:.+|file:[^/\\]+)$"

# Of a DAG that is there once for all applications: a run that waits for its approval keeps no other application from being restored. Two runs of one
# application are kept apart by its lock.
RUNS = 32


def application(names: Sequence[str]) -> Param:
    """Which of the configured applications."""
    return Param(names[0] if len(names) == 1 else None, type="string", enum=list(names), title="Application")


def replace() -> Param:
    """Whether state that is there may go."""
    return Param(
        default=False,
        type="boolean",
        title="Replace living state",
        description="Without it, internal topics that hold records stop the run. Needs the confirmation below.",
    )


def delete(which: str) -> Param:
    """Topics that go although nothing but their names says whose they are."""
    return Param(
        "",
        type="string",
        pattern=r"^[a-zA-Z0-9._, -]*$",
        title="Internal topics to delete",
        description=f"{which} and are really this application's, separated by commas.",
    )


def safety() -> Param:
    """What becomes of what is there."""
    return Param(
        "required",
        type="string",
        enum=["required", "best_effort", "skip"],
        title="Safety savepoint",
        description="Of what is there now, taken first. Anything but required needs the confirmation below.",
    )


def offsets(default: str, description: str) -> Param:
    """Where the inputs go on."""
    return Param(
        default, type="string", maxLength=100_000, pattern=OFFSETS_PATTERN, title="Where the inputs go on", description=description
    )


def compare_keys() -> Param:
    """Whether keys are compared although records are equal."""
    return Param(
        default=False,
        type="boolean",
        title="Compare keys",
        description="Compares every changelog key by key too, although its records were found equal. Takes a second Spark job.",
    )


def confirm() -> Param:
    """The application id, typed."""
    return Param("", type="string", maxLength=249, title="Confirmation", description="Type the application id.")


def reason() -> Param:
    """Why."""
    return Param("", type="string", maxLength=500, title="Reason", description="Kept with the evidence of the restore.")
