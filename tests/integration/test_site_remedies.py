"""What people are told to do about another site is done as it is printed, and the application goes there with all that it has counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.preflight.findings import PreflightFinding, blocking
from streams_recovery.operations.preflight import before_failover
from tests.support.applications.counting import DoneHere, savepoint_here
from tests.support.applications.two_sites import AtTwoSites
from tests.support.kafka.three_brokers import ThreeBrokers

pytestmark = [pytest.mark.kafka, pytest.mark.deep]


def between(home: str, dr: str, directory: Path) -> AtTwoSites:
    """The application at ``home``, with nothing at ``dr``. Neither of the brokers is ended."""
    found = AtTwoSites(bootstrap=home, home=home, dr=dr, directory=directory, restart=lambda: home, end_broker=lambda: None)
    found.configure()
    return found


@pytest.fixture
def sites(own_bootstrap: str, bootstrap: str, tmp_path: Path) -> Iterator[AtTwoSites]:
    found = between(own_bootstrap, bootstrap, tmp_path)
    found.build()
    yield found
    for site in ("primary", "dr"):
        found.at(site).tidy()


def at_dr(sites: AtTwoSites, **changes: Any) -> None:
    """The section of that site, with these keys changed."""
    sites.configure(sites={"dr": sites.sections["sites"]["dr"] | changes})


def told(sites: AtTwoSites, kind: str) -> list[PreflightFinding]:
    """What the preflight of a failover says of this kind."""
    with sites.at("dr").recovery() as recovery:
        return [one for one in before_failover(recovery, sites.newest()) if one.kind == kind]


@pytest.mark.remedy("site-partitions-mirrored")
def test_an_input_with_other_partitions_is_mirrored_again_under_a_name_of_its_own(sites: AtTwoSites) -> None:
    sites.worked("aabacab")
    savepoint_here(sites)
    there, again = sites.at("dr"), TopicPartition(f"{sites.id}.in.again", 0)
    with there.recovery() as recovery:
        recovery.cluster.create_topic(sites.input.topic, partitions=2, replication_factor=1, config={"retention.ms": "-1"})
    there.feed("aab")
    (blocker,) = told(sites, "partitions")
    assert blocking([blocker])
    assert "otherwise mirror it again from its beginning, into a topic that is created with 1 partitions" in blocker.next_step

    with there.recovery() as recovery:
        recovery.cluster.create_topic(again.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    mirror(sites, again)
    programs = there.programs("started-dr", source=again.topic)
    at_dr(sites, topic_map={sites.input.topic: again.topic}, runs={"kind": "command", "command": programs})
    assert told(sites, "partitions") == []
    report = sites.move("dr", DoneHere(there))
    assert report.part.move is not None
    assert (report.part.move.kept, there.committed(tp=again)) == ((again.topic,), 7)
    assert there.state() == {"a": 4, "b": 2, "c": 1}


def mirror(sites: AtTwoSites, there: TopicPartition) -> None:
    """What a mirror does: each record, with its time, in its order."""
    producer = Producer({"bootstrap.servers": sites.dr, "log_level": 0})
    home = sites.at("primary")
    for (key, value), stamp in zip(home.rows(sites.input), home.stamps(), strict=True):
        producer.produce(there.topic, value, key, there.partition, timestamp=stamp)
    assert producer.flush(30) == 0


@pytest.mark.deep
@pytest.mark.remedy("site-replicas")
def test_topics_get_the_replicas_that_a_site_with_one_broker_can_have(three: ThreeBrokers, bootstrap: str, tmp_path: Path) -> None:
    sites = between(three.bootstrap, bootstrap, tmp_path)
    with sites.recovery() as recovery:
        for tp in (sites.input, sites.output, sites.changelog):
            kept = {"cleanup.policy": "compact"} if tp is sites.changelog else {"retention.ms": "-1"}
            recovery.cluster.create_topic(tp.topic, partitions=1, replication_factor=3, config=kept | {"min.insync.replicas": "2"})
    sites.worked("aab")
    savepoint_here(sites)
    fewer, less = told(sites, "replication")
    assert "1 brokers are up" in fewer.text
    assert "must be raised with them later" in less.text

    # More brokers: those that there are at home.
    larger = between(three.bootstrap, three.bootstrap, tmp_path)
    larger.id = sites.id
    larger.configure()
    assert told(larger, "replication") == []

    sites.configure()
    at_dr(sites, replication_factor=1)
    assert [one.text for one in told(sites, "replication")] == [less.text], "it was chosen, and what follows of it is said"
    assert "set replication_factor" not in less.next_step
    there = sites.at("dr")
    sites.move("dr", DoneHere(there))
    there.feed("cab")
    there.stop()
    there.start()
    assert there.state() == there.truth() == {"a": 3, "b": 2, "c": 1}
    with there.recovery() as recovery:
        found = recovery.cluster.describe_topics([sites.changelog.topic])[sites.changelog.topic]
        assert (found.replication_factor, found.config["min.insync.replicas"]) == (1, "1")
    for site in ("primary", "dr"):
        sites.at(site).tidy()
