"""What a savepoint becomes at another site, and which site is left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.sites import PRIMARY, SeenSite, SiteEntry
from streams_recovery.core.restore.failover import (
    check_left,
    contained,
    fewer_replicas,
    left_behind,
    left_by,
    stays,
    with_places,
)
from tests.support.examples.savepoints import image, manifest_of, segment, topic


def entry(site: str, *, arrived: bool, before: str = PRIMARY) -> SiteEntry:
    return SiteEntry(site=site, cluster_id="", arrived=arrived, before=before, run="r", at=1, requested_by="", reason="", fences=())


def seen(site: str, *unseen: str) -> SeenSite:
    return SeenSite(site=site, cluster_id="", instances=(), members=(), unseen=unseen)


def manifest(*, replicas: int = 3, in_sync: str | None = "2", role: TopicRole = TopicRole.INPUT, archived: bool = True) -> Manifest:
    config = {} if in_sync is None else {"min.insync.replicas": in_sync, "retention.ms": "5"}
    found = topic((image((segment(0, 10, [1, 5]),)),), name="in", role=role, topic_id="x")
    return manifest_of(replace(found, replication_factor=replicas, config=config, archived=archived))


def test_the_site_that_is_left_is_the_one_it_belongs_to_or_came_from() -> None:
    assert left_by(None, "dr", application_id="a") == PRIMARY
    assert left_by(entry("dr", arrived=True), PRIMARY, application_id="a") == "dr"
    assert left_by(entry("dr", arrived=False), PRIMARY, application_id="a") == "dr"
    # On its way there it has not left anything but where it came from.
    assert left_by(entry("dr", arrived=False, before="third"), "dr", application_id="a") == "third"
    for log, to in ((None, PRIMARY), (entry("dr", arrived=True), "dr")):
        with pytest.raises(Refused, match=f"belongs to the site {to} already"):
            left_by(log, to, application_id="a")


def test_a_word_counts_for_the_site_that_is_left_and_where_nobody_can_ask_it_is_needed() -> None:
    assert check_left(seen(PRIMARY), "") is False
    assert check_left(seen(PRIMARY, "cluster: no answer"), PRIMARY) is True
    with pytest.raises(Refused, match=r"nobody can prove .* primary: cluster: no answer"):
        check_left(seen(PRIMARY, "cluster: no answer"), "")
    for one in (seen(PRIMARY), seen(PRIMARY, "cluster: no answer")):
        with pytest.raises(Refused, match="'dr' is typed"):
            check_left(one, "dr")


@pytest.mark.remedy("site-replicas")
@pytest.mark.parametrize(
    ("factor", "brokers", "replicas", "in_sync", "warned"),
    [
        (None, None, 3, "2", 0),
        (None, 3, 3, "2", 0),
        (None, 2, 2, "2", 1),
        (None, 1, 1, "1", 2),
        (1, None, 1, "1", 1),
        (2, 5, 2, "2", 0),
        (5, 3, 3, "2", 1),
        (None, 0, 1, "1", 2),
    ],
)
def test_topics_get_no_more_replicas_than_there_are_brokers_and_can_still_be_written(
    factor: int | None, brokers: int | None, replicas: int, in_sync: str, warned: int
) -> None:
    changed, warnings = fewer_replicas(manifest(), factor=factor, brokers=brokers)
    assert (changed.topics[0].replication_factor, changed.topics[0].config["min.insync.replicas"]) == (replicas, in_sync)
    assert changed.topics[0].config["retention.ms"] == "5"
    assert len(warnings) == warned


def test_what_nobody_has_set_is_not_lowered() -> None:
    changed, _ = fewer_replicas(manifest(in_sync=None), factor=1, brokers=1)
    assert changed.topics[0].config == {}
    same = manifest()
    assert fewer_replicas(same, factor=None, brokers=None) == (same, ())


def test_a_place_is_the_committed_offset_of_its_partition() -> None:
    before = manifest()
    committed = CommittedOffset(offset=5, metadata="stream time", leader_epoch=4)
    before = replace(
        before,
        topics=tuple(
            replace(one, partitions=tuple(replace(part, committed=committed) for part in one.partitions)) for one in before.topics
        ),
    )
    place = CommittedOffset(offset=17, metadata="stream time", leader_epoch=None)
    assert with_places(before, {TopicPartition("in", 0): place}).topics[0].partitions[0].committed == place
    assert with_places(before, {}) == before


def test_outputs_that_stay_behind_or_lack_something_are_named() -> None:
    names = {"in": "out-there"}
    output = manifest(role=TopicRole.OUTPUT, archived=False)
    assert left_behind(output, names, (), before="primary", to="dr") == (
        "outputs are not in the savepoint, so they begin empty at dr; what they had stays at primary: in",
    )
    [text] = left_behind(output, names, ("out-there",), before="dr", to="primary")
    assert text.startswith("outputs that are at primary already stay as they are, without what was written at dr meanwhile: out-there")
    assert left_behind(manifest(role=TopicRole.OUTPUT), names, (), before="primary", to="dr") == ()


def test_inputs_that_stay_may_lack_what_the_state_has() -> None:
    assert stays((), before="dr") == ()
    [text] = stays(("orders", "items"), before="dr")
    assert text.startswith("inputs stay as they are, without what was written at dr alone")
    assert text.endswith("items, orders")


RECORDS = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=8)


@given(RECORDS, RECORDS)
def test_what_is_contained_is_a_part_of_the_archive_in_its_order(there: list[bytes], archive: list[bytes]) -> None:
    def subsequence(one: list[bytes], other: list[bytes]) -> bool:
        rest = iter(other)
        return all(record in rest for record in one)

    found = contained([*enumerate(there, start=7)], archive, end=99)
    assert (found.end, found.records) == (99, len(there))
    assert (found.missing == 0) is subsequence(there, archive)
    if found.missing_from is not None:
        # Everything in front of the first that is missing is there, and with it not.
        at = found.missing_from - 7
        assert found.missing == len(there) - at
        assert subsequence(there[:at], archive)
        assert not subsequence(there[: at + 1], archive)
