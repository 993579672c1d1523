"""A clone is refused as long as it could write where it must not, or could never take over."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.loader import load, load_all
from streams_recovery.config.sandbox_application import live
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.outputs.keys import ReadBy

OLD = """\
version: 1
application: {id: orders, guarantee: exactly_once_v2}
topics: {inputs: [orders-in], outputs: [totals, late]}
storage: {backend: filesystem, path: repository}
backup: {survive_cluster_loss: false}
runs: {kind: command, command: {status: [look], stop: [stop], start: [start, totals, late], wipe: [wipe]}}
"""
CLONE = """\
version: 1
application: {id: next-orders, guarantee: exactly_once_v2}
topics: {inputs: [orders-in], outputs: [next.totals, next.late]}
storage: {backend: filesystem, path: repository}
backup: {survive_cluster_loss: false}
restore: {topic_map: {totals: next.totals, late: next.late}}
clone:
  of: orders
  cut_over: {environment: {TOTALS: totals, LATE: late}}
runs:
  kind: process
  process:
    directory: next/run
    command: [java, Orders.java]
    environment: {ID: next-orders, TOTALS: next.totals, LATE: next.late}
    instances: [{name: one, url: "http://127.0.0.1:18085", state_directory: next/state}]
"""
PROGRAM = """\
runs: {kind: command, command: {status: [look], stop: [stop], start: [start, next.totals, next.late], wipe: [wipe]}}
"""


def written(directory: Path, text: str, name: str = "next") -> Path:
    path = directory / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_clone_that_is_live_has_the_real_outputs_and_is_told_so(tmp_path: Path) -> None:
    beside = load(written(tmp_path, CLONE), {})
    taken = live(beside)
    assert (beside.topics.outputs, taken.topics.outputs) == (("next.totals", "next.late"), ("totals", "late"))
    assert (taken.restore.topic_map, taken.application, taken.storage) == ({}, beside.application, beside.storage)
    assert live(taken) == taken, "repeating it changes nothing"
    process = taken.runs.process
    assert process is not None
    assert process.environment_of(process.instances[0]) == {"ID": "next-orders", "TOTALS": "totals", "LATE": "late"}
    assert (process.command, process.directory) == (("java", "Orders.java"), str(tmp_path / "next" / "run"))


def test_a_program_starts_a_live_clone_by_other_arguments(tmp_path: Path) -> None:
    text = CLONE[: CLONE.index("runs:")] + PROGRAM
    taken = live(load(written(tmp_path, text.replace("environment: {TOTALS: totals, LATE: late}", "command: [start, totals, late]")), {}))
    assert taken.runs.command is not None
    assert (taken.runs.command.start, taken.runs.command.stop) == (("start", "totals", "late"), ("stop",))


def test_only_a_clone_can_be_live(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="as a clone") as caught:
        live(load(written(tmp_path, OLD, "orders"), {}))
    assert caught.value.facts == {"application": "orders"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("of: orders", "of: next", "next cannot be a clone of itself"),
        (", late: next.late}", "}", "its name is next.late, so nothing is known to cut over to"),
        (
            "topics: {inputs: [orders-in], outputs: [next.totals, next.late]}",
            "topics: {inputs: [copy], outputs: [next.totals, next.late]}",
            None,
        ),
        ("{totals: next.totals,", "{orders-in: orders-in, totals: next.totals,", "it reads orders-in in place of what orders reads"),
        (
            "environment: {TOTALS: totals, LATE: late}}",
            "environment: {TOTALS: totals}}",
            "clone.cut_over: the environment or the command of an instance names",
        ),
        (
            "environment: {TOTALS: totals, LATE: late}}",
            "environment: {TOTALS: totals, LATE: x}}",
            "clone.cut_over: the output late is neither in",
        ),
        ("LATE: next.late}", "LATE: x}", "runs: the output next.late is neither in"),
        ("LATE: next.late}", "LATE: next.late, ALSO: late}", "runs: the environment or the command of an instance names the output late"),
        ("  of: orders", "  of: orders", None),
        ("  of: orders", "  off: orders", "clone.off"),
    ],
)
def test_what_could_write_where_it_must_not_is_refused(tmp_path: Path, old: str, new: str, said: str | None) -> None:
    assert old in CLONE
    path = written(tmp_path, CLONE.replace(old, new, 1))
    if said is None:
        found = load(path, {}).clone
        assert found is not None
        assert found.of == "orders"
        return
    with pytest.raises(ConfigInvalid) as caught:
        load(path, {})
    assert said in str(caught.value)


def test_a_clone_of_nobody_is_refused_when_all_are_read(tmp_path: Path) -> None:
    written(tmp_path, CLONE)
    [error] = load_all(tmp_path, {}).broken.values()
    assert "next is a clone of orders, which is not configured; known: next" in str(error)
    written(tmp_path, OLD, "orders")
    assert set(load_all(tmp_path, {}).applications) == {"next", "orders"}
    written(tmp_path, "not: [yaml", "orders")
    found = load_all(tmp_path, {})
    assert (set(found.applications), set(found.broken)) == ({"next"}, {"orders"}), "it is there, whatever is wrong with it"


def test_how_an_output_is_compared_is_said_of_a_real_output(tmp_path: Path) -> None:
    form = "outputs: {totals: {way: latest, key: string, value: json, window: time, ignore: [meta.at]}}\n"
    found = load(written(tmp_path, CLONE + form), {})
    assert (found.outputs["totals"].way, found.outputs["totals"].ignore) == (ReadBy.LATEST, ("meta.at",))
    assert live(found).outputs == found.outputs, "the name stays when the clone writes it itself"
    assert load(written(tmp_path, OLD + form, "orders"), {}).outputs == found.outputs
    for wrong, said in (
        ("next.totals: {}", "next.totals is no output"),
        ("totals: {ignore: [at]}", "ignore names fields of JSON values"),
        ("totals: {value: json, ignore: [a..b]}", "is no field"),
        ("totals: {value: avro}", "go together"),
    ):
        with pytest.raises(ConfigInvalid, match=said):
            load(written(tmp_path, CLONE + f"outputs: {{{wrong}}}\n"), {})
