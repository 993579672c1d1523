"""Each runbook is followed, word for word, by an application to which that has happened."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from embedded.stores.google import KEY, GoogleServer
from embedded.stores.s3 import CREDENTIALS as IN_S3
from embedded.stores.s3 import S3Server
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.seals import new_private_key
from tests.support.applications import fleet
from tests.support.examples.runbooks import DIRECTORY, commands, pages
from tests.support.kafka.records import connect, write
from tests.support.repository.local_keys import by, new_key
from tests.support.spark.small_app import SmallApp

pytestmark = [pytest.mark.kafka, pytest.mark.deep, pytest.mark.timeout(900)]

NAME, ROWS = "small", 40
Fill = Mapping[str, str | Callable[[], str]]


@dataclass(kw_only=True)
class Connected(SmallApp):
    """An application with ``more`` connections, by their names in upper case."""

    more: dict[str, object] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        return super().variables | {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in self.more.items()}


@dataclass
class Patient:
    """An application, and a person who follows a page. ``followed`` are the commands that were run."""

    app: Connected
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
        self,
        page: str,
        fill: Fill,
        *,
        codes: Mapping[str, int | Iterator[int]] | None = None,
        before: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        """All commands of a page in their order. ``codes`` are exit codes other than 0, or those of one call after the other, ``before`` is what happens before
        a command, by its first words.
        """
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
            code = (codes or {}).get(" ".join(words[:2]), 0)
            said = self.run(*filled, code=code if isinstance(code, int) else next(code))
            self.followed.append(words)
            if "--plan" in words and (found := re.findall(r"--approve (\w{64,})", said)):
                approval = found[-1]

    def store(self, place: Mapping[str, object] | None = None, **sections: object) -> None:
        """Write what the configuration says of the repository: its place, without one the first directory, and these sections."""
        path = self.app.directory / f"{NAME}.yaml"
        storage = {**(place or directory(self.app.directory / "repository")), **sections}
        path.write_text(re.sub(r"(?m)^storage: .*$", lambda _: f"storage: {json.dumps(storage)}", path.read_text()))

    def lose_and_restore(self) -> None:
        """The application loses its state, and the newest savepoint brings it back."""
        self.app.lose()
        said = self.run("restore", NAME, "--plan")
        self.run("restore", NAME, "--reason", "test", "--approve", re.findall(r"--approve (\w{64,})", said)[-1])

    def running(self) -> bool:
        with self.app.recovery() as recovery:
            return all(status.state.value == "running" for status in recovery.application.status())


class InTurn:
    """What happens at one call after the other; None is nothing."""

    def __init__(self, *left: Callable[[], object] | None) -> None:
        self.left = list(left)

    def __call__(self) -> None:
        happens = self.left.pop(0)
        if happens is not None:
            happens()


def replaced(word: str, values: Mapping[str, str]) -> str:
    """A word of a command with its placeholders filled in."""
    return re.sub(r"<([a-z]+)>", lambda found: values[found[1]], word)


@pytest.fixture
def patient(bootstrap: str, tmp_path: Path) -> Patient:
    """One that has state, offsets, and a store that can be read."""
    app = Connected(bootstrap=bootstrap, directory=tmp_path, partitions=2, rows=ROWS)
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


class AtTwoSites(Connected):
    """One that is configured at ``dr`` too."""

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
        there = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
        app = AtTwoSites(bootstrap=home, directory=tmp_path, partitions=2, rows=ROWS, more={"KAFKA_DR": there})
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

        backups = InTurn(at_the_other_one, comes_back, stopped_at_home)
        patient.follow(
            "other-site",
            {"site": "dr", "lost": "primary"},
            before={"backup <name>": backups, "failover <name> --to <lost> --replace --plan": stopped_at_home},
        )
        assert backups.left == []
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
    patient.store(mirror=second(patient))
    patient.savepoint()
    patient.run("mirror", NAME)
    contents = patient.app.contents()
    with patient.app.recovery() as recovery:
        first = Path(str(recovery.repository.location.path))
    patient.app.lose()
    first.rename(first.with_name("lost"))
    patient.follow("store-lost", {})
    restored(patient, contents)


def directory(path: Path) -> dict[str, object]:
    """A place in a directory."""
    return {"backend": "filesystem", "path": str(path)}


def second(patient: Patient) -> dict[str, object]:
    """A second place, which nobody fills but by hand."""
    return {**directory(patient.app.directory / "second"), "schedule": "none"}


def bucket(place: StorageLocation) -> dict[str, object]:
    """A place in a bucket, whose keys are in the connection ``store``."""
    names = ("backend", "bucket", "prefix", "region", "endpoint", "path_style", "allow_http")
    return {**{name: getattr(place, name) for name in names}, "connection": "store"}


def test_a_key_is_rotated(patient: Patient) -> None:
    old, new = new_key(patient.app.directory / "old"), new_key(patient.app.directory / "new")

    def keys(*files: Path) -> None:
        patient.store(encryption=by(*files), mirror=second(patient))

    def without_the_old_one() -> None:
        keys(new)
        old.unlink()

    keys(old)
    patient.savepoint()
    patient.run("mirror", NAME)
    listed = InTurn(None, None, without_the_old_one)
    contents = patient.app.contents()
    patient.follow("key-rotated", {}, before={"keys list": listed, "keys rotate": lambda: keys(new, old)})
    assert listed.left == []
    patient.lose_and_restore()
    restored(patient, contents)


def test_a_key_is_lost(patient: Patient) -> None:
    one, only = new_key(patient.app.directory / "one"), new_key(patient.app.directory / "only")

    def keys(*files: Path) -> None:
        patient.store(encryption=by(*files), mirror=second(patient))

    keys(one)
    first = patient.savepoint()
    patient.run("mirror", NAME)
    keys(only, one)
    patient.run("keys", "rotate", NAME)
    one.unlink()
    keys(only)
    patient.run("keys", "list", NAME)
    patient.run("verify", NAME, first, "--level", "full")

    only.unlink()
    contents = patient.app.contents()
    patient.run("backup", NAME, code=2)
    fill = {"savepoint": patient.newest}
    patient.follow("key-lost", fill, codes={"keys list": 2}, before={"backup <name>": lambda: keys(new_key(only))})
    patient.run("verify", NAME, first, "--level", "full", code=22)
    patient.lose_and_restore()
    restored(patient, contents)


def test_the_credentials_of_the_store_are_stolen(patient: Patient, s3: S3Server) -> None:
    app, place = patient.app, s3.bucket("versioned")
    private, public = new_private_key()
    (app.directory / "seal").write_text(private)
    (app.directory / "seal").chmod(0o600)
    stolen = s3.user(place, ["s3:*"])
    app.more["STORE"] = connection(stolen)
    sections = {"seal": {"public_keys": [public], "key_file": str(app.directory / "seal")}, "mirror": second(patient)}
    patient.store(bucket(place), encryption=by(new_key(app.directory / "key")), **sections)
    savepoint = patient.savepoint()
    patient.run("mirror", NAME)
    contents = app.contents()

    thief, client, repository = s3.client(stolen), s3.client(), Repository(place, stolen)
    segments = [key for key in repository.keys(f"{app.id}/segments/") if key.endswith(".parquet")]
    names = [f"{place.prefix}/{key}" for key in segments]
    assert all(thief.get_object(Bucket=place.bucket, Key=name)["Body"].read().startswith(b"PARE") for name in names), "all he can read"
    thief.delete_object(Bucket=place.bucket, Key=names[0])
    for version in s3.versions(place)[segments[1]]:
        thief.delete_object(Bucket=place.bucket, Key=names[1], VersionId=version)
    forged = f"{app.id}/savepoints/{savepoint[:-1]}{'1' if savepoint[-1] == '0' else '0'}/manifest.json.zst"
    thief.copy_object(
        Bucket=place.bucket,
        Key=f"{place.prefix}/{forged}",
        CopySource={"Bucket": place.bucket, "Key": f"{place.prefix}/{app.id}/savepoints/{savepoint}/manifest.json.zst"},
    )

    def new_keys() -> None:
        app.more["STORE"] = connection(s3.user(place, ["s3:*"]))
        s3.remove(stolen)
        with pytest.raises(ConfigInvalid):
            Repository(place, stolen).get(forged)

    def by_hand() -> None:
        client.delete_object(Bucket=place.bucket, Key=f"{place.prefix}/{forged}")

    looked = InTurn(new_keys, by_hand)
    patient.follow(
        "credentials-stolen",
        {},
        codes={"verify <name>": iter((29, 0, 0))},
        before={"verify <name> --level full": looked},
    )
    assert looked.left == []
    patient.lose_and_restore()
    restored(patient, contents)


def connection(keys: StorageCredentials) -> dict[str, object]:
    """A connection to a bucket with these keys."""
    return {"conn_type": "aws", "login": keys.options["access_key_id"], "password": keys.options["secret_access_key"]}


def test_a_repository_moves_to_another_cloud(patient: Patient, s3: S3Server, google: GoogleServer) -> None:
    app, old, new = patient.app, bucket(s3.bucket()), {**bucket(google.bucket()), "connection": "new"}
    app.more |= {"STORE": connection(IN_S3), "NEW": {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": json.dumps(KEY)}}}
    key = by(new_key(app.directory / "key"))
    patient.store(old, encryption=key)
    patient.savepoint()
    contents = app.contents()

    def moved() -> None:
        assert "has moved" in patient.run("backup", NAME, code=3)
        patient.store(new, encryption=key)

    looked = InTurn(None, moved)
    patient.follow(
        "repository-moves",
        {},
        before={
            "verify <name> --level full": looked,
            "mirror <name>": lambda: patient.store(old, encryption=key, mirror={**new, "schedule": "none"}),
        },
    )
    assert looked.left == []
    patient.lose_and_restore()
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
