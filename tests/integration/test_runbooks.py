"""Each runbook is followed, word for word, by an application to which that has happened."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core.kafka_types import TopicPartition
from tests.support.applications import fleet
from tests.support.examples.runbooks import DIRECTORY, commands, pages
from tests.support.kafka.records import connect, write
from tests.support.spark.small_app import SmallApp

pytestmark = [pytest.mark.kafka, pytest.mark.deep, pytest.mark.timeout(900)]

NAME, ROWS = "small", 40
Fill = Mapping[str, str | Callable[[], str]]


@dataclass
class Patient:
    """An application, and a person who follows a page. ``followed`` are the commands that were run."""

    app: SmallApp
    followed: list[list[str]] = field(default_factory=list)

    def savepoint(self) -> str:
        """Take one, and return its id."""
        self.run("backup", NAME)
        return self.newest()

    def newest(self) -> str:
        with self.app.recovery() as recovery:
            return max(recovery.savepoints.ids())

    def run(self, *words: str, code: int = 0) -> str:
        """One command to its end. Returns the last of what it said."""
        log = f"{len(self.followed):02}-{words[0]}.log"
        found, said = self.app.run(*words, log=log)
        assert found == code, f"{' '.join(words)} exited with {found}:\n{said}"
        return said

    def follow(
        self, page: str, fill: Fill, *, codes: Mapping[str, int] | None = None, before: Mapping[str, Callable[[], None]] | None = None
    ) -> None:
        """All commands of a page in their order. ``codes`` are exit codes other than 0, ``before`` is what happens before a command, by its first words."""
        approval = ""
        for words in commands((DIRECTORY / f"{page}.md").read_text()):
            text = " ".join(words)
            for begin, happens in (before or {}).items():
                if text.startswith(begin):
                    happens()
            values = {
                "name": NAME,
                "hash": approval,
                **{name: value if isinstance(value, str) else value() for name, value in fill.items()},
            }
            filled = [replaced(word, values) for word in words]
            said = self.run(*filled, code=(codes or {}).get(" ".join(words[:2]), 0))
            self.followed.append(words)
            if "--plan" in words and (found := re.findall(r"--approve (\w{64,})", said)):
                approval = found[-1]

    def running(self) -> bool:
        with self.app.recovery() as recovery:
            return all(status.state.value == "running" for status in recovery.application.status())


def replaced(word: str, values: Mapping[str, str]) -> str:
    """A word of a command with its placeholders filled in."""
    return re.sub(r"<([a-z]+)>", lambda found: values[found[1]], word)


@pytest.fixture
def patient(bootstrap: str, tmp_path: Path) -> Patient:
    """One that has state, offsets, and a store that can be read."""
    app = SmallApp(bootstrap=bootstrap, directory=tmp_path, partitions=2, rows=ROWS)
    configured(app)
    app.build()
    return Patient(app)


def configured(app: SmallApp, *, survives: bool = True) -> None:
    app.configure(NAME)
    path = app.directory / f"{NAME}.yaml"
    text = path.read_text().replace("survive_cluster_loss: false", f"survive_cluster_loss: {str(survives).lower()}")
    path.write_text(f"{text}stores: {{totals: {{kind: key-value}}}}\n")


def restored(patient: Patient, contents: object) -> None:
    """It runs, with what it had."""
    assert (patient.app.contents(), patient.app.committed()) == (contents, (10, "AgAAAYvP4/gA"))
    assert patient.running()


def test_the_cluster_is_gone(patient: Patient) -> None:
    patient.savepoint()
    contents = patient.app.contents()
    patient.app.lose()
    with patient.app.recovery() as recovery:
        recovery.cluster.delete_topics([f"{patient.app.id}.in"])
    patient.follow("cluster-gone", {})
    restored(patient, contents)


@dataclass(kw_only=True)
class AtTwoSites(SmallApp):
    """One that is configured at ``dr`` too."""

    dr: str

    @property
    def variables(self) -> dict[str, str]:
        return super().variables | {"AIRFLOW_CONN_KAFKA_DR": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": self.dr}})}

    def configured(self) -> None:
        """Its inputs are in its savepoints, and a cluster that is lost does not hold a test up for long."""
        configured(self)
        runs = {"kind": "command", "command": fleet.programs(self.directory / "state-dr")}
        path = self.directory / f"{NAME}.yaml"
        sites = {"dr": {"connection": "kafka_dr", "runs": runs}}
        path.write_text(f"{path.read_text()}sites: {json.dumps(sites)}\n".replace("timeout_seconds: 20", "timeout_seconds: 2"))

    def running_at(self) -> list[str]:
        """The sites where it runs."""
        states = {"primary": self.directory / "state", "dr": self.directory / "state-dr"}
        return [site for site, state in states.items() if state.exists() and state.read_text() == "running"]


def test_the_cluster_is_gone_and_there_is_another_one(bootstrap: str, tmp_path: Path) -> None:
    with Processes(tmp_path / "processes") as processes:
        port, controller = free_ports(2)
        home = start_broker(processes, tmp_path / "broker", port=port, controller_port=controller)
        app = AtTwoSites(bootstrap=home, dr=bootstrap, directory=tmp_path, partitions=2, rows=ROWS)
        app.configured()
        app.build()
        patient = Patient(app)
        patient.savepoint()
        contents = app.contents()
        with app.recovery() as recovery:
            recovery.application.start()
        processes.stop_all()

        def at_the_other_one() -> None:
            assert app.running_at() == ["dr"]

        def comes_back() -> None:
            # With its disks, on which inputs and state are as they were; and the machine that ran the application is back too.
            start_broker(processes, tmp_path / "broker", port=port, controller_port=controller)
            (tmp_path / "state").write_text("running")
            assert app.running_at() == ["primary", "dr"]

        def stopped_at_home() -> None:
            assert app.running_at() == ["dr"], "the savepoint has stopped what lived at home"

        backups = iter((at_the_other_one, comes_back, stopped_at_home))

        def before_a_backup() -> None:
            next(backups)()

        patient.follow(
            "other-site",
            {"site": "dr", "lost": "primary"},
            before={"backup <name>": before_a_backup, "failover <name> --to <lost> --replace --plan": stopped_at_home},
        )
        assert list(backups) == []
        assert app.running_at() == ["primary"]
        restored(patient, contents)
        with app.recovery() as recovery:
            assert recovery.site == "primary"


def test_a_bad_deployment(patient: Patient) -> None:
    savepoint = patient.savepoint()
    more(patient.app, 7)
    spoilt = rows(patient.app)
    patient.follow("bad-deployment", {"savepoint": savepoint})
    assert rows(patient.app) == spoilt, "the last command was the way back"
    assert patient.running()


def test_wrong_results_since_tuesday(patient: Patient) -> None:
    savepoint = patient.savepoint()
    more(patient.app, 7)
    later = patient.savepoint()
    patient.follow("wrong-results", {"savepoint": savepoint, "later": later, "store": "totals"}, codes={"state diff": 9})
    assert patient.running()


def test_someone_deleted_a_topic(patient: Patient) -> None:
    patient.savepoint()
    contents = patient.app.contents()
    with patient.app.recovery() as recovery:
        recovery.cluster.delete_topics([patient.app.changelog])
    patient.run("backup", NAME, code=3)
    patient.follow("topic-deleted", {})
    restored(patient, contents)


def test_one_input_was_deleted(patient: Patient) -> None:
    configured(patient.app)
    patient.savepoint()
    contents, name = patient.app.contents(), f"{patient.app.id}.in"
    with patient.app.recovery() as recovery:
        recovery.application.stop(timeout=30)
        recovery.cluster.delete_topics([name])
    copy = f"{name}-before"
    patient.follow("input-deleted", {"input": name, "copy": copy})
    assert (patient.app.contents(), patient.app.committed()) == (contents, (10, "AgAAAYvP4/gA"))
    with patient.app.recovery() as recovery:
        ends = recovery.cluster.high_watermarks([TopicPartition(one, 0) for one in (name, copy)])
        recovery.cluster.delete_topics([copy])
    assert set(ends.values()) == {10}


def test_disk_full(patient: Patient) -> None:
    path = patient.app.directory / f"{NAME}.yaml"
    rules = dict.fromkeys(("keep_hourly", "keep_daily", "keep_weekly", "keep_monthly"), 0) | {"keep_last": 1, "minimum": 1}
    path.write_text(f"{path.read_text()}retention: {rules}\n")
    first = patient.savepoint()
    patient.savepoint()
    patient.follow("disk-full", {"savepoint": patient.newest})
    with patient.app.recovery() as recovery:
        assert first not in recovery.savepoints.ids()


def test_the_restore_failed_half_way(patient: Patient) -> None:
    savepoint = patient.savepoint()
    broken = (patient.app.directory / "state").with_suffix(".broken")

    def fails() -> None:
        broken.touch()
        said = patient.run("restore", NAME, "--savepoint", savepoint, "--replace", "--plan")
        [*_, approval] = re.findall(r"--approve (\w{64,})", said)
        options = ("--savepoint", savepoint, "--replace", "--reason", "test", "--approve", approval)
        code, _ = patient.app.run("restore", NAME, *options, log="failed.log")
        assert code != 0, "it was to fail at its start"
        broken.unlink()

    def dies() -> None:
        with patient.app.recovery() as recovery:
            recovery.lock.acquire("a dead run", lease_seconds=1800, purpose="nothing")

    fails()
    fill = {"owner": "a dead run", "restore": patient.app.newest_restore, "savepoint": savepoint}
    patient.follow("restore-failed", fill, before={"unlock <name> <owner> --plan": dies, "dismiss <name> <restore> --plan": fails})
    patient.run("backup", NAME)


def test_the_store_is_lost(patient: Patient) -> None:
    path = patient.app.directory / f"{NAME}.yaml"
    text = path.read_text()
    found = re.search(r"(?m)^storage: \{(.*)\}$", text)
    assert found is not None, text
    place = f"{{backend: filesystem, path: {patient.app.directory / 'second'}, schedule: none}}"
    path.write_text(text.replace(found[0], f"storage: {{{found[1]}, mirror: {place}}}"))
    patient.savepoint()
    patient.run("mirror", NAME)
    contents = patient.app.contents()
    with patient.app.recovery() as recovery:
        first = Path(str(recovery.repository.location.path))
    patient.app.lose()
    first.rename(first.with_name("lost"))
    patient.follow("store-lost", {})
    restored(patient, contents)


def test_airflow_is_lost(patient: Patient) -> None:
    patient.savepoint()
    patient.follow("airflow-lost", {})
    assert patient.running()


def test_each_page_has_a_test() -> None:
    source = Path(__file__).read_text()
    assert {page.stem for page in pages()} == set(re.findall(r'patient\.follow\(\s*"([\w-]+)"', source))


def more(app: SmallApp, count: int) -> None:
    """Later updates of the first keys."""
    values = [(1_700_001_000_000, b"k%d" % number, os.urandom(20), None) for number in range(count)]
    for tp in app.logs:
        write(connect(app.bootstrap), tp, values)


def rows(app: SmallApp) -> dict[int, int]:
    """Records of each partition of the changelog."""
    return {partition: found[2] for partition, found in app.contents().items()}
