"""What people are told to do about savepoints is done as it is printed: it is told no more, and what was lost comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app as program
from streams_recovery.core.errors import Forged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.operations import maintenance, preflight, savepoint
from tests.support.applications.counting import Counting, restore_here, savepoint_here
from tests.support.kafka.topic_settings import alter

pytestmark = [pytest.mark.kafka, pytest.mark.deep]
YEAR = 365 * 86_400_000


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[Counting]:
    """It has counted three records, and is down."""
    found = Counting(bootstrap=bootstrap, directory=tmp_path)
    found.configure()
    found.build()
    found.worked("aab")
    yield found
    found.tidy()


def run(app: Counting, *words: str) -> Result:
    return CliRunner().invoke(program, words, env=app.variables | {"COLUMNS": "300"})


def told(app: Counting) -> dict[str, PreflightFinding]:
    """What the preflight of a savepoint says, by the kinds of remedies."""
    with app.recovery() as recovery:
        found = (*savepoint.before_savepoint(recovery), *preflight.of_repository(recovery))
    return {one.remedy.kind.id: one for one in found}


def write(app: Counting, topic: str, key: bytes, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": app.bootstrap, "log_level": 0})
    producer.produce(topic, value, key, 0)
    assert producer.flush(30) == 0


@pytest.mark.remedy(
    "savepoint-hold", "savepoint-attribution", "savepoint-include", "savepoint-cluster-loss", "savepoint-output", "repository-seal"
)
def test_what_savepoints_lack_is_there_when_it_was_done_as_it_is_told(app: Counting) -> None:
    names = {"inputs": [app.input.topic], "outputs": [app.output.topic]}
    mine, passed, other = (f"{app.id}-{one}" for one in ("by-size-changelog", "by-key-repartition", "eu-totals-changelog"))
    lasting = {"survive_cluster_loss": True, "consistency": {"mode": "stop"}}
    with app.recovery() as recovery:
        for name in (mine, passed, other):
            recovery.cluster.create_topic(name, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
        alter(recovery.cluster, {app.output.topic: {"cleanup.policy": "compact"}})
    for name in (mine, other):
        write(app, name, b"k", name.encode())
    first = {"savepoint-hold", "savepoint-attribution", "savepoint-include", "savepoint-cluster-loss", "repository-seal"}
    app.configure(topics=names | {"include": ["nothing-*"]}, backup={"survive_cluster_loss": False})
    assert told(app).keys() == first

    # Each of the ways out of being stopped.
    pauses = {"pause": ["true"], "resume": ["true"]}
    runs_as = {"kind": "command", "command": app.programs("started")}
    app.configure(runs={**runs_as, "command": app.programs("started") | pauses})
    assert "savepoint-hold" not in told(app)
    app.configure(runs=runs_as)
    for mode in ("live", "stop"):
        app.configure(backup={"survive_cluster_loss": False, "consistency": {"mode": mode}})
        assert told(app).keys() == first - {"savepoint-hold"}

    # Each of the topics that may be another application's.
    assert all(name in told(app)["savepoint-attribution"].text for name in (mine, passed, other))
    app.configure(
        stores={"totals": {"kind": "key-value"}, "by-size": {"kind": "key-value"}},
        topics=names | {"owned": [passed], "foreign": [other], "include": ["nothing-*"]},
    )
    assert told(app).keys() == first - {"savepoint-hold", "savepoint-attribution"}

    # Named, or corrected.
    whose = {"owned": [passed], "foreign": [other]}
    app.configure(topics=names | whose | {"globals": ["nothing-there"], "include": ["nothing-*"]})
    assert "savepoint-include" not in told(app)
    app.configure(topics=names | whose | {"include": [app.input.topic]})
    assert "savepoint-include" not in told(app)

    app.configure(topics=names | whose, backup=lasting)
    assert told(app).keys() == {"savepoint-output", "repository-seal"}
    app.configure(topics=names | whose | {"include": [app.output.topic]})
    assert told(app).keys() == {"repository-seal"}
    unsealed = savepoint_here(app)
    sealed(app, unsealed)
    assert told(app) == {}

    # The cluster is lost, but for what is another application's.
    truth, output = app.truth(), app.rows(app.output)
    with app.recovery() as recovery:
        strange = recovery.cluster.describe_topics([other])[other].topic_id
        recovery.cluster.delete_topics(sorted(app.topics() - {other}))
        recovery.groups.delete(app.id)
    restore_here(app, unsealed)
    app.feed("b")
    app.stop()
    app.start()
    assert app.state() == app.truth() == truth | {"b": 2}
    assert app.rows(app.output)[: len(output)] == output
    assert app.rows(TopicPartition(mine, 0)) == [("k", mine)]
    assert app.rows(TopicPartition(other, 0)) == [("k", other)]
    with app.recovery() as recovery:
        assert recovery.cluster.describe_topics([other])[other].topic_id == strange


def sealed(app: Counting, before: str) -> None:
    """Keys are made, the configuration has them, and a person vouches for what was there before."""
    make, vouch = re.findall(r"`streams-recovery ([^`]+)`", told(app)["repository-seal"].next_step)
    key = app.directory / "seal.key"
    public = run(app, *make.replace("FILE", str(key)).split()).stdout.strip()
    storage = {"backend": "filesystem", "path": str(app.directory / "repository")}
    app.configure(storage=storage | {"seal": {"public_keys": [public], "key_file": str(key)}})
    with pytest.raises(Forged):
        restore_here(app, before, replace=True)
    words = vouch.replace("NAME", app.name).split()
    plan = json.loads(run(app, *words, "--plan", "--json").stdout)
    done = run(app, *words, "--approve", plan["approve"], "--reason", "they are ours")
    assert done.exit_code == 0, done.output


@pytest.mark.remedy("savepoint-clock")
def test_a_savepoint_of_a_clock_that_was_wrong_stays_or_goes_as_a_whole(app: Counting) -> None:
    """The clock is the one that the program asks; that of the machine cannot be set for one process."""
    app.configure(backup={"survive_cluster_loss": True, "consistency": {"mode": "stop"}})
    wrong = savepoint_here(app, later=YEAR)
    assert wrong in told(app)["savepoint-clock"].text
    # It may stay: it is never the newest, and expiry goes on.
    app.worked("b")
    right = savepoint_here(app)
    assert app.newest().savepoint_id == right
    assert cannot_be_read(app) == []

    keys = re.findall(r"[\w./-]+/[\w./-]+\.[\w.]*\w", told(app)["savepoint-clock"].next_step)
    assert [wrong in key for key in keys] == [True, True]
    with app.recovery() as recovery:
        recovery.repository.delete(keys[:1])
    assert cannot_be_read(app) == [wrong], "as is said of half of it"
    with app.recovery() as recovery:
        recovery.repository.delete(keys[1:])
    assert "savepoint-clock" not in told(app)
    assert cannot_be_read(app) == []
    # Files that it had first are still there for those that share them.
    app.lose()
    restore_here(app, right)
    app.worked("c")
    assert app.state() == app.truth() == {"a": 2, "b": 2, "c": 1}


def cannot_be_read(app: Counting) -> list[str]:
    """What keeps expiry from removing files."""
    with app.recovery() as recovery:
        blocked = maintenance.plan_expiry(recovery).blocked
    return re.findall(r"(\w+-\w+) \(lost\)", blocked or "")
