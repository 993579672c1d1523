"""What people are told to do about room and about a lock that nobody can read is done as it is printed, and the savepoint that it is about is taken."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.core.errors import EntryUnreadable
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity
from streams_recovery.operations import maintenance, savepoint
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.restore_steps import restored
from tests.support.applications.savepoint_steps import begun, take
from tests.support.applications.small import Small, configured, lose_state, reopened
from tests.support.applications.topic_records import produce
from tests.support.kafka.topic_settings import alter

pytestmark = [pytest.mark.kafka, pytest.mark.deep]
HOUR, DAY = 3_600_000, 86_400_000
# What a disk has, has in use, and has free, as ``shutil.disk_usage`` tells it.
Usage = namedtuple("Usage", ["total", "used", "free"])


def sized(monkeypatch: pytest.MonkeyPatch, sizes: dict[Path, int]) -> None:
    """Give these directories disks of their own of so many bytes, on which only what is in them is in use."""
    real = shutil.disk_usage

    def usage(path: Path) -> object:
        where = Path(path)
        for directory, size in sizes.items():
            if where == directory or directory in where.parents:
                used = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
                return Usage(size, used, size - used)
        return real(path)

    monkeypatch.setattr(shutil, "disk_usage", usage)


def space(recovery: RecoveryContext) -> list[PreflightFinding]:
    return [one for one in savepoint.before_savepoint(recovery) if one.kind == "space"]


@pytest.mark.remedy("room-repository")
def test_a_full_disk_of_the_repository_has_room_again_by_either_way(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small disk cannot be made by everybody who runs this: how large it is is said here, and what is in use on it are the real files."""
    keep = dict.fromkeys(("keep_hourly", "keep_daily", "keep_weekly", "keep_monthly"), 0) | {
        "keep_last": 1,
        "minimum": 1,
        "apply": "true",
    }
    recovery = replace(small.recovery, config=configured(small.recovery, retention=keep, backup={"full_after_savepoints": 1}))
    repository = tmp_path / "repository"
    for _ in range(3):
        produce(small.recovery, small.changelog, 2_000)
        take(small, recovery=recovery)
    used = sum(file.stat().st_size for file in repository.rglob("*") if file.is_file())
    needed = sum(sum(disk.topics.values()) for disk in recovery.cluster.log_dirs({small.changelog.topic: 1, small.tail.topic: 1}))
    sizes = {repository: used + 2 * needed - 1}
    sized(monkeypatch, sizes)
    (told,) = space(recovery)
    assert (told.severity, told.remedy.kind.id) == (PreflightSeverity.WARNING, "room-repository")
    sizes[repository] += 1 << 20
    assert space(recovery) == []
    sizes[repository] -= 1 << 20

    days = re.findall(r"retention\.grace_days", told.next_step)
    assert days, "nothing is free before"
    report = maintenance.expire(recovery, "run", approved=maintenance.plan_expiry(recovery).hash)
    assert len(report.expired) == 2
    assert [one.text for one in space(recovery)] != []
    later = replace(recovery, clock=lambda: recovery.clock() + (recovery.config.retention.grace_days + 1) * DAY)
    maintenance.expire(later, "run", approved=maintenance.plan_expiry(later).hash)
    assert space(recovery) == []
    saved = take(small, recovery=recovery).savepoint_id
    lose_state(small)
    assert restored(recovery, recovery.savepoints.read(saved)) > 6_000


@pytest.mark.remedy("room-spark")
@pytest.mark.parametrize("named", ["SPARK_LOCAL_DIRS", "spark.local.dir", "nowhere"])
def test_spark_gets_room_where_it_keeps_what_does_not_fit(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """How large the disk is is said here, as above."""
    full, other, conf = (tmp_path / name for name in ("full", "other", "conf"))
    for directory in (full, other, conf):
        directory.mkdir()
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    sizes = {full: 1 << 29}
    sized(monkeypatch, sizes)
    if named == "SPARK_LOCAL_DIRS":
        monkeypatch.setenv(named, str(full))
    elif named == "spark.local.dir":
        (conf / "spark-defaults.conf").write_text(f"{named} {full}\n")
    else:
        monkeypatch.setattr("tempfile.tempdir", str(full))
    with reopened(small) as mine:
        (told,) = space(mine.recovery)
        assert (told.severity, told.remedy.kind.id, str(full) in told.text) == (PreflightSeverity.WARNING, "room-spark", True)
        sizes[full] = 1 << 40
        assert space(mine.recovery) == []
        sizes[full] = 1 << 29
        # The other way is the one that is told: where the variable is set, Spark does not look at its settings.
        [setting] = re.findall(r"let (\S+) name another disk", told.next_step)
        if setting == "SPARK_LOCAL_DIRS":
            monkeypatch.setenv(setting, str(other))
        else:
            (conf / "spark-defaults.conf").write_text(f"{setting} {other}\n")
        assert space(mine.recovery) == []


@pytest.mark.remedy("lock-end-record")
@pytest.mark.fault("F63")
@pytest.mark.parametrize("way", ["the command", "half an hour"])
def test_a_record_of_the_lock_that_nobody_can_read_is_ended_or_grows_old(small: Small, tmp_path: Path, way: str) -> None:
    recovery = small.recovery
    take(small)
    last = max(recovery.repository.sizes(recovery.layout.locks))
    key = f"{recovery.layout.locks}{int(Path(last).stem) + 1:012}.json"
    recovery.repository.create(key, b"{" * 1_000)
    with pytest.raises(EntryUnreadable) as caught:
        begun(recovery)
    if way == "the command":
        [command] = caught.value.commands
        words = shlex.split(command)[1:]
        assert words[0] == "unlock"
        ended = run(small, tmp_path, *words)
        assert (ended.exit_code, "taken" in ended.output) == (0, True), ended.output
    else:
        assert "half an hour" in caught.value.next_step
        file = tmp_path / "repository" / key
        os.utime(file, (file.stat().st_mtime - 29 * 60,) * 2)
        with pytest.raises(EntryUnreadable):
            begun(recovery)
        os.utime(file, (file.stat().st_mtime - 2 * 60,) * 2)
    saved = take(small).savepoint_id
    lose_state(small)
    assert restored(recovery, recovery.savepoints.read(saved)) == 4 + 3


def run(small: Small, directory: Path, *words: str) -> Result:
    servers = small.recovery.connection.bootstrap_servers
    variables = {"AIRFLOW_CONN_KAFKA_DEFAULT": f'{{"conn_type": "kafka", "extra": {{"bootstrap.servers": "{servers}"}}}}'}
    return CliRunner().invoke(
        app, [*words, "--configs", str(directory)], env=variables | {"COLUMNS": "300"}, input=f"{small.recovery.application_id}\n"
    )


def test_what_a_full_disk_s_runbook_looks_at_is_there_to_be_seen(small: Small, tmp_path: Path) -> None:
    """How far the application is behind, how old the newest savepoint is, and what grows without end."""
    saved = take(small).savepoint_id
    produce(small.recovery, small.input, 2)
    alter(small.recovery.cluster, {small.changelog.topic: {"cleanup.policy": "delete"}})
    said = {verb: run(small, tmp_path, *verb.split(), "small") for verb in ("groups describe", "info", "advise")}
    assert [one.exit_code for one in said.values()] == [0, 0, 0], [one.output for one in said.values()]
    # Four of seven are read.
    assert re.search(rf"{re.escape(small.input.topic)}\D+0\D+4\D+7\D+3\b", said["groups describe"].output), said["groups describe"].output
    assert saved in said["info"].output
    advised = said["advise"].output.replace("\n", " ")
    assert small.changelog.topic in advised
    assert "cleanup.policy" in advised
