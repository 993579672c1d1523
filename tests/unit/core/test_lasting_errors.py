"""Errors of the operating system that stay are no passing ones, in whatever module they are met."""

from __future__ import annotations

import ast
import errno
import os
from pathlib import Path

import pytest

from streams_recovery.core import errors
from streams_recovery.core.errors import WAITED_OUT, ConfigInvalid, NoRoom, TransientError, lasting, of_machine, tells_of_no_room
from streams_recovery.workflows.savepoint import ARCHIVE_INPUTS, COPY_RECORDS
from tests.support.project import PROJECT

# These ask over a network, where an OSError is a connection that failed.
NETWORK = {"application/http_control.py", "kafka/clients.py"}
PASSING = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TransientError)}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_stays(number: int) -> None:
    found = of_machine(OSError(number, os.strerror(number)))
    assert type(found) is NoRoom
    assert "make room" in found.next_step
    assert tells_of_no_room(f"java.io.IOException: {os.strerror(number)}\n\tat x")
    assert lasting(number) is NoRoom


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_no_right_stays(number: int) -> None:
    found = of_machine(OSError(number, os.strerror(number), "/repository/x"))
    assert type(found) is ConfigInvalid
    assert found.reason == f"/repository/x: {os.strerror(number)}"


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT, errno.ECONNREFUSED, errno.ETIMEDOUT, errno.EMFILE, None])
def test_others_may_pass(number: int | None) -> None:
    assert lasting(number) is None
    assert of_machine(OSError(number, "x") if number else OSError("x")) is None


def test_a_connection_that_a_firewall_does_not_permit_is_no_file() -> None:
    assert of_machine(PermissionError(errno.EPERM, "Operation not permitted")) is None


def test_only_what_goes_on_for_ever_waits_for_room() -> None:
    assert ARCHIVE_INPUTS.tried_again == WAITED_OUT
    assert COPY_RECORDS.tried_again == (TransientError,)


def passing_by_mistake(file: Path) -> list[int]:
    """Lines that raise a passing error out of an ``OSError`` without having asked whether it stays."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ExceptHandler) or node.type is None or "OSError" not in ast.unparse(node.type):
            continue
        raised = [inner for inner in ast.walk(node) if isinstance(inner, ast.Raise) and isinstance(inner.exc, ast.Call)]
        found += [one.lineno for one in raised if isinstance(one.exc, ast.Call) and ast.unparse(one.exc.func) in PASSING]
    return found


def test_no_module_takes_an_error_of_a_file_for_a_passing_one() -> None:
    root = PROJECT / "plugins" / "streams_recovery"
    files = [*root.rglob("*.py"), *(PROJECT / "spark_jobs").rglob("*.py")]
    assert len(files) > 300
    found = {
        file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name: lines
        for file in files
        if (lines := passing_by_mistake(file))
    }
    assert set(found) == NETWORK, found
