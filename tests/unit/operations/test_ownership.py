"""Every start goes by what the repository says an application is."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
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


def log_in(directory: Path, application_id: str = "next") -> AppendLog[OwnershipEntry]:
    return ownership_log(
        Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")), None), Layout(application_id)
    )


def outputs(config: ApplicationConfig, applications: Mapping[str, ApplicationConfig] | None = None) -> tuple[str, ...]:
    """The outputs that the application counts as writing."""
    return current_owner(config, Repository(config.storage.location, None), lambda: applications or {}).topics.outputs


def started(directory: Path, config: ApplicationConfig) -> str | None:
    """With which output one is started on a cluster that does not answer, None when it is not."""
    repository = Repository(config.storage.location, None)
    nowhere = KafkaConnection.from_extra({"bootstrap.servers": "127.0.0.1:9"}, where="a test")
    mark = directory / "started"
    mark.unlink(missing_ok=True)
    with ConsumerGroups(lambda: nowhere, timeout=1) as groups, suppress(RecoveryError):
        StartedByRole(config, repository, groups, dict).start()
    return mark.read_text() if mark.exists() else None


@pytest.mark.parametrize("clone", [True, False])
def test_without_any_entry_an_application_is_started_as_it_is_configured_and_no_cluster_is_asked(tmp_path: Path, clone: bool) -> None:
    config, log = configured(tmp_path, clone=clone), log_in(tmp_path)
    assert started(tmp_path, config) == "own.out"
    assert log.last() is None
    assert outputs(config) == ("own.out",)


@pytest.mark.parametrize(("clone", "role"), [(True, Role.LIVE), (True, Role.RETIRED), (False, Role.RETIRED)])
def test_what_cannot_be_proven_is_not_started(tmp_path: Path, clone: bool, role: Role) -> None:
    config, log = configured(tmp_path, clone=clone), log_in(tmp_path)
    log.append(entry(role))
    assert started(tmp_path, config) is None
    assert outputs(config) == ("own.out",)


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ((Role.RETIRED, "next"), "out"),
        ((Role.RETIRED, "another"), "own.out"),
        ((Role.LIVE, "next"), "own.out"),
        (None, "own.out"),
    ],
)
def test_a_clone_has_the_real_outputs_only_when_both_logs_say_so(tmp_path: Path, theirs: tuple[Role, str] | None, expected: str) -> None:
    config, log = configured(tmp_path, clone=True), log_in(tmp_path)
    log.append(entry(Role.LIVE))
    if theirs is not None:
        role, other = theirs
        log_in(tmp_path, "orders").append(replace(entry(role), other=other))
    assert outputs(config) == (expected,)
    renamed = config.application.model_copy(update={"id": "orders-2"})
    of = config.model_copy(update={"name": "orders", "application": renamed, "clone": None})
    # Where the configuration says whose clone it is, the log cannot name another.
    assert outputs(config, {"orders": of}) == ("own.out",)


def test_a_standby_is_started_with_its_own_outputs(tmp_path: Path) -> None:
    config, log = configured(tmp_path, clone=True), log_in(tmp_path)
    log.append(entry(Role.STANDBY))
    assert started(tmp_path, config) == "own.out"
