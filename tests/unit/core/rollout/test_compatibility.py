"""What a person may say of an answer of the compatibility check."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.rollout.compatibility import Compatibility, CompatibilityVerdict, StoreFacts, TopologyDifference
from streams_recovery.core.rollout.topology_comparison import compare
from tests.support.examples.topologies import APPLICATION, counting, regrouping, saved

TOTALS = saved({"totals": 2})
FIRST, SECOND = (f"KSTREAM-AGGREGATE-STATE-STORE-000000000{number}" for number in (1, 3))


def test_what_a_person_names_may_go_and_nothing_else() -> None:
    found = compare(APPLICATION, TOTALS, counting("sums"), {})
    accepted = found.accepting(["totals"])
    assert (accepted.verdict, accepted.answer) == (CompatibilityVerdict.COMPATIBLE, "compatible")
    with pytest.raises(ConfigInvalid, match="nothing is lost of sums"):
        found.accepting(["sums"])


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (compare(APPLICATION, saved({"totals": 3}), counting("totals"), {}), TopologyDifference.PARTITIONS_DIFFER),
        (compare(APPLICATION, TOTALS, regrouping("totals"), {}), TopologyDifference.GROUPING_CHANGED),
        (compare(APPLICATION, TOTALS, counting("totals"), {"totals": StoreFacts(kind=StoreKind.WINDOW)}), TopologyDifference.KIND_CHANGED),
    ],
)
def test_content_that_stays_and_is_wrong_cannot_be_said_to_go(found: Compatibility, kind: TopologyDifference) -> None:
    assert [one.kind for one in found.findings] == [kind]
    for same in ((), ("totals",)):
        with pytest.raises(ConfigInvalid):
            found.accepting(["totals"], same=same)
    with pytest.raises(ConfigInvalid) as refused:
        found.accepting(["totals"])
    assert refused.value.facts["stays"] == ["totals"]


def test_a_numbered_store_is_the_same_only_when_a_person_says_so() -> None:
    found = compare(APPLICATION, saved({FIRST: 2, SECOND: 2}), counting(FIRST), {})
    assert [(one.subject, one.kind) for one in found.findings if one.loses] == [(FIRST, TopologyDifference.NUMBER_REUSED)]
    with pytest.raises(ConfigInvalid) as refused:
        found.accepting([FIRST])
    assert refused.value.facts["stays"] == [FIRST]
    assert found.accepting((), same=[FIRST]).verdict is CompatibilityVerdict.ORPHANED
    with pytest.raises(ConfigInvalid, match="may be another store"):
        found.accepting((), same=[SECOND])
