"""The estimate in words."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.kafka_types import Profile
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.instant import instant
from streams_recovery.core.status.report import StatusReport
from streams_recovery.ui.plan import plan_rows
from tests.support.examples.statuses import HOUR, NOW, report, summary


def words(status: StatusReport, moment: int) -> dict[str, str]:
    return {label: str(text) for label, text in plan_rows(instant(status, moment))}


def test_with_archived_input_the_plan_leads_to_the_instant() -> None:
    found = words(report(), NOW - HOUR // 2)
    assert list(found) == ["Comes back", "Input replayed", "Lost", "Emitted again", "Topics replaced", "Moves", "Takes", "Needs"]
    assert found["Input replayed"] == "<code>orders</code> about 30,000 records, <code>inventory</code> about 20 records, from the archive"
    assert found["Lost"] == "nothing up to this instant"


def test_without_archived_input_the_plan_says_what_is_lost_and_when() -> None:
    found = words(replace(report(), savepoints=tuple(replace(one, moments=None) for one in report().savepoints)), NOW - HOUR // 2)
    assert "Input replayed" not in found
    assert found["Lost"].startswith("30 min between the savepoint and this instant, if the cluster no longer has that input")
    assert "about 60,667 records" in found["Emitted again"]


def test_the_time_says_what_it_rests_on() -> None:
    assert words(report(), NOW)["Takes"] == "about 3 min 12 s, by 3 earlier restores"
    unmeasured = replace(report(), estimate=Estimate(seconds={"load": 60.0}, measured=0))
    assert words(unmeasured, NOW)["Takes"] == "about 1 min, by default rates, no restore was measured"
    assert words(replace(report(), estimate=None), NOW)["Takes"] == "not known: nothing was measured"


def test_input_of_unknown_size_is_said_to_be_unknown() -> None:
    status = replace(report(), savepoints=tuple(replace(one, input_positions=None) for one in report().savepoints))
    found = words(status, NOW - HOUR // 2)
    assert "<code>orders</code> an unknown number of records" in found["Input replayed"]
    assert found["Takes"].endswith("The time to process the input again is not in it: how much that is, is not known")


def test_no_input_is_not_said_to_be_about_none() -> None:
    still = replace(report(), savepoints=tuple(replace(one, input_positions={"orders": 5}) for one in report().savepoints))
    assert words(still, NOW - HOUR // 2)["Input replayed"].startswith("<code>orders</code> no records, ")


def test_a_minimal_savepoint_brings_back_offsets_only() -> None:
    found = words(replace(report(), savepoints=(summary(0, profile=Profile.MINIMAL),)), NOW)
    assert found["Comes back"].endswith("the state is built again from the input")


def test_without_a_base_there_is_nothing_to_say() -> None:
    assert words(report(savepoints=0), NOW) == {}


def test_names_from_a_cluster_are_text_and_no_markup() -> None:
    topics = tuple(replace(topic, name="<script>") if topic.name == "orders" else topic for topic in report().topics)
    assert "<script>" not in words(replace(report(), topics=topics), NOW)["Emitted again"]
