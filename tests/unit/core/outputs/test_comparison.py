"""What is asked of a comparison of outputs, what is concluded, and what people read of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.forms import request_of
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.outputs.comparison import (
    Against,
    DifferingKey,
    OutputPair,
    OutputRange,
    OutputsOptions,
    OutputsReport,
    OutputsResult,
    OutputsSpec,
    OutputsTicket,
    PairCompared,
    counts_text,
    newest_text,
    outputs_outcome,
    outputs_request,
    report_of,
    shown,
)
from streams_recovery.core.outputs.keys import KeyCounts, ReadBy
from streams_recovery.core.outputs.values import RecordForm, Tolerance
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.state.inspection import Outcome

NOW = 1_764_158_400_000
KEY = DifferingKey(partition=1, key="secret", window="", what="different", here="1", there="2")


def asked(**options: str):
    return outputs_request(request_of(OutputsOptions, options), run_id="run", requested_by="me")


def report(*pairs: PairCompared, shown_values: bool = True, tolerance: str = "") -> OutputsReport:
    span = OutputRange(tp=TopicPartition("real0", 0), start=0, settled=1, end=1)
    spec = OutputsSpec(
        application_id="next",
        shown=shown_values,
        pairs=tuple(
            OutputPair(
                output=f"real{at}", other=f"own{at}", way=ReadBy.RECORDS, form=RecordForm(), here=(span,), there=(), by_partition=True
            )
            for at in range(len(pairs))
        ),
    )
    assert codec.loads(OutputsSpec, codec.dumps(spec), where="here") == spec
    ticket = OutputsTicket(
        request=asked(tolerance=tolerance),
        against=Against.CLONE,
        other="next",
        savepoint_id="sp",
        run="outputs-run",
        spec=ArtifactRef.of("key", b""),
        ranges=1,
        offsets=1,
        notes=("from here to there",),
    )
    found = report_of(ticket, spec, OutputsResult(pairs=pairs, seconds=1.0), at=NOW)
    assert codec.loads(OutputsReport, codec.dumps(found), where="here") == found
    return found


counts = st.builds(
    KeyCounts, **{name: st.integers(0, 2) for name in ("equal", "different", "behind", "only_here", "only_there", "in_flux")}
)


@given(st.lists(counts, max_size=4))
def test_equal_needs_a_key_that_is_equal_and_none_that_is_not(every):
    outcome = outputs_outcome(every)
    right = bool(every) and not any(one.wrong for one in every)
    assert (outcome is Outcome.EQUAL) == (right and all(one.equal for one in every)), "one of which nothing was compared is not equal"
    assert (outcome is Outcome.PARTLY) == (right and any(one.equal for one in every) and not all(one.equal for one in every))
    assert (outcome is Outcome.DIFFERENT) == any(one.different or one.behind or one.only_here or one.only_there for one in every)


def test_nothing_is_never_equal():
    assert outputs_outcome([]) is Outcome.NOTHING_COMPARED
    assert outputs_outcome([KeyCounts(in_flux=5, superseded=5, records_here=9, records_there=9)]) is Outcome.NOTHING_COMPARED


def test_a_request_has_an_interval_and_numbers():
    assert asked().interval is None
    found = asked(interval="2025-11-26T12:00:00Z", tolerance="0.001", relative_tolerance="1e-9")
    assert (found.interval, found.tolerance) == (NOW, Tolerance(absolute=0.001, relative=1e-9))
    with pytest.raises(ConfigInvalid, match="no number"):
        asked(tolerance="a bit")
    with pytest.raises(ConfigInvalid, match="is none"):
        asked(relative_tolerance="-1")
    for percent in ("1", "5"):
        with pytest.raises(ConfigInvalid, match="any two numbers"):
            asked(relative_tolerance=percent)


def test_a_report_says_which_numbers_and_shows_keys_only_where_values_are():
    done = PairCompared(
        counts=KeyCounts(equal=3, different=1, behind=1, missing=2, in_flux=4, records_here=10, records_there=8), differing=(KEY,)
    )
    found = report(done, PairCompared(counts=KeyCounts(), differing=()), tolerance="0.5")
    assert found.outcome is Outcome.DIFFERENT
    page = shown(found, values=True)
    assert page.found.rows == (("real0", "1", "secret", "", "different", "1", "2"),)
    assert page.sentences == (
        "real0 and own0, by records: 5 keys compared: 3 equal, 1 different, 1 behind by 2 records; 0 only in real0, 0 only in own0, 4 in flux; "
        "10 and 8 records read",
        "real1 and own1: nothing was compared, 0 and 0 records read",
        "from here to there",
        "numbers may differ by 0.5, or by 0 of the larger one",
    )
    closed = shown(found, values=False)
    assert (closed.found.rows, closed.has_data) == ((), False)
    assert "secret" not in repr(closed)


def test_keys_that_are_superseded_or_in_flux_are_told():
    found = report(PairCompared(counts=KeyCounts(equal=1, superseded=2, records_here=3, records_there=3), differing=()))
    assert counts_text(found.outputs[0]).endswith("0 only in own0, 2 superseded; 3 and 3 records read")
    found = report(PairCompared(counts=KeyCounts(in_flux=2), differing=()))
    assert counts_text(found.outputs[0]) == "real0 and own0: nothing was compared, 0 and 0 records read, 2 keys in flux"


def test_a_plan_of_a_cut_over_says_how_old_the_newest_comparison_is_or_that_there_is_none():
    found = report(PairCompared(counts=KeyCounts(equal=1_234), differing=()))
    assert newest_text(found, now=NOW + 3 * 60_000) == "Outputs compared 3 min ago (2025-11-26 12:00:00 UTC): equal, 1,234 keys compared."
    empty, some = (PairCompared(counts=counts, differing=()) for counts in (KeyCounts(in_flux=7), KeyCounts(equal=1)))
    assert newest_text(report(some, empty, tolerance="0.5"), now=NOW).endswith(
        "partly compared, 1 keys compared; 7 keys were in flux; nothing was compared of real1; numbers may differ by 0.5, or by 0 of the larger one."
    )
    assert newest_text(None, now=NOW) == "The outputs of the clone were not compared with the real ones since it was made."
