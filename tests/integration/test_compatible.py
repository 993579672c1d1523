"""Versions of one application id: what the check says of each, and what really happens when it goes on with a savepoint."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streams_recovery.cli import app as program
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.rollout.compatibility import Compatibility, CompatibilityVerdict, TopologyDifference
from streams_recovery.core.rollout.described import described, generated_base
from streams_recovery.core.rollout.topology_comparison import compare
from streams_recovery.operations import restore
from streams_recovery.operations.compatibility import compatibility
from tests.support.applications.pair import Here
from tests.support.applications.small import asked
from tests.support.applications.versioned import Versioned, description
from tests.support.examples.described import TEXTS
from tests.support.examples.topologies import saved
from tests.support.programs.java import STREAMS, command_of

pytestmark = [pytest.mark.kafka, pytest.mark.deep]

FIRST, SECOND, THIRD = (f"KSTREAM-AGGREGATE-STATE-STORE-000000000{number}" for number in (1, 3, 2))


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[Versioned]:
    found = Versioned(bootstrap=bootstrap, directory=tmp_path)
    found.configure(stores={})
    found.build()
    try:
        yield found
    finally:
        found.stop()
        found.tidy()


def saved_as(app: Versioned, version: str, keys: str) -> str:
    """A savepoint of a version that has processed these records, and is down. Its id."""
    app.deploy(version)
    app.feed(keys)
    app.start()
    app.works_off()
    app.stop()
    with app.recovery() as recovery:
        return app.savepoint(Here(recovery))


def judged(app: Versioned, version: str, *, before: str | None = None) -> Compatibility:
    with app.recovery() as recovery:
        old = None if before is None else described(app.describes(before))
        return compatibility(recovery, described(app.describes(version)), before=old)


def goes_on_as(app: Versioned, version: str, savepoint: str, keys: str, *, new_topics: bool = False) -> None:
    """Restored from the savepoint and started as another version, which then processes these records too. Of ``new_topics`` the restore finds out when it
    has started it.
    """
    app.deploy(version)
    with app.recovery() as recovery:
        request = asked(recovery, savepoint=savepoint, replace=True, safety=restore.SafetyPolicy.SKIP)
        runner = Runner(recovery=recovery, submitter=Here(recovery), say=print)
        requester = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        with pytest.raises(Damaged, match="created internal topics that the savepoint does not have") if new_topics else nullcontext():
            runs.restore_in_place(runner, request, requester, approve=lambda _: True)
    app.feed(keys)
    app.works_off()
    app.stop()


def test_a_version_that_is_called_compatible_counts_on(app: Versioned) -> None:
    savepoint = saved_as(app, "counted", "aab")
    for before in (None, "counted"):
        found = judged(app, "added", before=before)
        assert (found.verdict, found.findings) == (CompatibilityVerdict.COMPATIBLE, ())
    goes_on_as(app, "added", savepoint, "ab")
    assert app.counts() == app.truth() == {"a": 3, "b": 2}


def test_old_state_goes_on_under_a_topology_with_one_more_branch_whose_store_has_what_came_after(app: Versioned) -> None:
    savepoint = saved_as(app, "counted", "aab")
    for before in (None, "counted"):
        found = judged(app, "branched", before=before)
        assert (found.verdict, {(one.kind, one.subject) for one in found.findings}) == (
            CompatibilityVerdict.COMPATIBLE,
            {(TopologyDifference.NEW_STORE, "by-value")},
        )
    goes_on_as(app, "branched", savepoint, "abaa", new_topics=True)
    assert app.counts() == Counter("aab" + "abaa")
    # Values are the offsets of records.
    assert app.counts("by-value") == {str(at): 1 for at in (3, 5, 6)}


def test_a_renamed_store_begins_empty(app: Versioned) -> None:
    savepoint = saved_as(app, "counted", "aab")
    found = judged(app, "renamed")
    assert (found.answer, found.findings[0].candidates) == ("rename these stores: totals", ("sums",))
    goes_on_as(app, "renamed", savepoint, "ab", new_topics=True)
    assert app.counts("sums") == {"a": 1, "b": 1}
    assert app.truth() == {"a": 3, "b": 2}


def test_a_changed_grouping_goes_on_with_counts_of_other_keys(app: Versioned) -> None:
    savepoint = saved_as(app, "counted", "aab")
    for before in (None, "counted"):
        found = judged(app, "regrouped", before=before)
        assert found.answer == "state is lost for totals"
        assert {one.kind for one in found.findings if one.verdict is CompatibilityVerdict.LOST} == {TopologyDifference.GROUPING_CHANGED}
    goes_on_as(app, "regrouped", savepoint, "ab", new_topics=True)
    values = {value for _, value in app.rows(app.input)}
    assert {"a", "b"} <= app.counts().keys(), "what was counted by the other key is still there"
    assert app.counts().keys() - {"a", "b"} < values, "and not all values were ever counted"


def test_an_input_that_a_cogroup_groups_anew_is_counted_into_what_was_counted_by_another_key(app: Versioned) -> None:
    savepoint = saved_as(app, "cogrouped", "aab")
    assert app.counts() == {"a": 4, "b": 2}
    assert judged(app, "cogrouped", before="cogrouped").verdict is CompatibilityVerdict.COMPATIBLE
    assert judged(app, "cogrouped-anew", before="cogrouped").answer == "state is lost for totals"
    goes_on_as(app, "cogrouped-anew", savepoint, "a", new_topics=True)
    # By its own definition the new version has three of a and one of b, and one of each value.
    assert (app.counts()["a"], app.counts()["b"]) == (5, 2)


def test_numbered_stores_begin_empty_or_go_on_with_the_content_of_another(app: Versioned) -> None:
    # Values are the numbers of records from 0 on: the lengths of all are 1.
    savepoint = saved_as(app, "numbered", "aaab")
    assert (app.counts(FIRST), app.counts(SECOND)) == ({"a": 3, "b": 1}, {"a": 3, "b": 1})
    moved = judged(app, "behind-an-operator")
    assert (moved.verdict, {one.subject for one in moved.findings}) == (CompatibilityVerdict.RENAME, {FIRST, SECOND})
    goes_on_as(app, "behind-an-operator", savepoint, "a", new_topics=True)
    assert app.counts(THIRD) == {"a": 1}
    for before in (None, "numbered"):
        reused = judged(app, "without-the-first", before=before)
        assert {one.subject: one.kind for one in reused.findings}[FIRST] is TopologyDifference.NUMBER_REUSED


def test_the_command_needs_no_cluster_and_says_it_by_its_exit_code(app: Versioned, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    savepoint = saved_as(app, "counted", "aab")
    # Nobody listens there.
    nowhere = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", nowhere)

    def run(version: str, *more: str) -> tuple[int, str]:
        (tmp_path / f"{version}.txt").write_bytes(app.describes(version))
        words = ["compatible", app.name, "--configs", str(tmp_path), "--topology", str(tmp_path / f"{version}.txt"), *more]
        done = CliRunner().invoke(program.app, words)
        return done.exit_code, done.output

    assert run("added")[0] == 0
    code, text = run("renamed")
    assert (code, text.strip().splitlines()[-1]) == (12, "rename these stores: totals")
    code, text = run("regrouped", "--json", "--savepoint", savepoint)
    answer = json.loads(text)
    assert (code, answer["verdict"], answer["savepoint_id"]) == (13, "state is lost", savepoint)
    assert run("renamed", "--lose", "totals")[0] == 0
    (tmp_path / "regrouped.txt").write_bytes(app.describes("regrouped"))
    words = ["compatible", app.name, "--configs", str(tmp_path), "--topology", str(tmp_path / "regrouped.txt"), "--lose", "totals"]
    assert isinstance(CliRunner().invoke(program.app, words).exception, ConfigInvalid), "its counts would stay"
    app.configure(
        stores={}, application={"id": app.id, "guarantee": "exactly_once_v2", "topology_command": ["cat", str(tmp_path / "added.txt")]}
    )
    done = CliRunner().invoke(program.app, ["compatible", app.name, "--configs", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_every_kind_of_store_and_topic_that_kafka_streams_names_is_read() -> None:
    new = described(description("everything"))
    kinds = {generated_base(store) or store for store in new.homes}
    assert kinds >= {
        "KSTREAM-AGGREGATE-STATE-STORE-#",
        "KTABLE-SUPPRESS-STATE-STORE-#",
        "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-#",
        "KSTREAM-OUTERSHARED-#-store",
        "left-STATE-STORE-#",
        "right",
    }
    assert new.has_pattern
    assert {generated_base(store) for store in new.global_stores} == {"global-STATE-STORE-#"}
    inputs = {"in", "left", "right", "other"}
    internal = (new.read & new.written) - inputs
    assert len(internal) == 4, "of the count, of both ways of the join, and the one with a name"
    manifest = saved(dict.fromkeys(new.homes, 1), inputs=dict.fromkeys(inputs, 1), repartitions=dict.fromkeys(internal, 1))
    for before in (None, new):
        found = compare(manifest.application_id, manifest, new, {}, before=before)
        assert (found.findings, found.compared) == ((), {"changelog": len(new.homes), "repartition": 4, "input": 4})


def test_the_kept_descriptions_are_those_that_kafka_streams_prints_today() -> None:
    done = subprocess.run(command_of(STREAMS / "Topologies.java"), capture_output=True, timeout=120, check=True)
    assert done.stdout.decode() == TEXTS.read_text()


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("counted", "merged", False),
        ("merged", "counted", False),
        ("by-a", "by-a", False),
        ("by-a", "by-b", True),
        ("regrouped", "of-more", True),
        ("through", "through-by-value", True),
        ("through-by-value", "through", True),
        ("through", "through-some", False),
    ],
)
def test_groupings_that_kafka_streams_describes_are_judged_right(old: str, new: str, *, lost: bool) -> None:
    before, after = described(description(old)), described(description(new))
    plain = {"in", "more", "clicks"}
    manifest = saved(
        {"totals": 1}, inputs=dict.fromkeys(before.read & plain, 1), repartitions=dict.fromkeys((before.read & before.written) - plain, 1)
    )
    found = compare(manifest.application_id, manifest, after, {}, before=before)
    assert ({TopologyDifference.GROUPING_CHANGED} <= {one.kind for one in found.findings}) is lost, found
    assert not any("store totals" in text for text in found.not_compared), found.not_compared
