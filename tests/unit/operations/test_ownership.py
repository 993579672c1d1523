"""Every start goes by what the repository says an application is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.operations.ownership import StartedByRole, current_owner, ownership_log
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

STARTING = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ['OUT'])"


def entry(role: Role) -> OwnershipEntry:
    return OwnershipEntry(role=role, other="orders", run="r", at=1, offsets={}, again={}, tail={})


def configured(directory: Path, *, clone: bool) -> ApplicationConfig:
    """An application whose start writes its output's name to a file."""
    plain = {
        "version": 1,
        "application": {"id": "next", "guarantee": "exactly_once_v2"},
        "topics": {"inputs": ["in"], "outputs": ["own.out"]},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "backup": {"survive_cluster_loss": False},
        "restore": {"topic_map": {"out": "own.out"}},
        "runs": {
            "kind": "command",
            "command": {
                "start": [sys.executable, "-c", STARTING, str(directory / "started")],
                "environment": {"OUT": "own.out"},
                **{verb: ["true"] for verb in ("status", "stop", "wipe")},
            },
        },
        **({"clone": {"of": "orders", "cut_over": {"environment": {"OUT": "out"}}}} if clone else {}),
    }
    path = directory / "next.yaml"
    path.write_text(json.dumps(plain))
    return load(path, {})


def log_in(directory: Path) -> AppendLog[OwnershipEntry]:
    return ownership_log(Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")), None), Layout("next"))


def test_a_clone_is_started_with_the_outputs_that_are_its_at_that_moment(tmp_path: Path) -> None:
    config, log, started = configured(tmp_path, clone=True), log_in(tmp_path), tmp_path / "started"
    application = StartedByRole(config, log)
    told = []
    for role in (None, Role.LIVE, Role.STANDBY):
        if role is not None:
            log.append(entry(role))
        application.start()
        told.append((started.read_text(), current_owner(config, log).topics.outputs))
    assert told == [("own.out", ("own.out",)), ("out", ("out",)), ("own.out", ("own.out",))]


@pytest.mark.parametrize("clone", [True, False])
def test_an_application_that_was_replaced_is_not_started(tmp_path: Path, clone: bool) -> None:
    config, log = configured(tmp_path, clone=clone), log_in(tmp_path)
    log.append(entry(Role.RETIRED))
    with pytest.raises(Refused, match="next transferred its outputs to orders"):
        StartedByRole(config, log).start()
    assert not (tmp_path / "started").exists()


def test_any_other_application_is_started_as_it_is_configured(tmp_path: Path) -> None:
    config, log = configured(tmp_path, clone=False), log_in(tmp_path)
    for role in (None, Role.LIVE):
        if role is not None:
            log.append(entry(role))
        StartedByRole(config, log).start()
        assert (tmp_path / "started").read_text() == "own.out"
        assert current_owner(config, log) == config
