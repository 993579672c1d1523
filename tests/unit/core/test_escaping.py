"""Text from elsewhere: whatever it holds, it is shown as what it is, and it takes nothing from what is around it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from markdown_it import MarkdownIt

import streams_recovery
from streams_recovery.cli import maintenance as commands
from streams_recovery.cli.look import findings_text
from streams_recovery.cli.offsets import plan_text as rollback_text
from streams_recovery.core.compaction.values import CompactionPlan, How, TopicCompaction
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.escaping import Markdown, code, joined, logger, md, visible, visible_lines
from streams_recovery.core.kafka_types import StoreKind, TopicPartition
from streams_recovery.core.offsets.group_changes import GroupAction, GroupChangePlan, GroupPlan
from streams_recovery.core.offsets.snapshot import OffsetChange
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity
from streams_recovery.core.remedies.remedy import as_refused
from streams_recovery.core.repository.mirror import MirroredObject, PassedOver, mirror_plan, mirror_text
from streams_recovery.core.repository.retention import Apply, Decision, DeletionOutlook, KeptWork, StoredFile
from streams_recovery.core.repository.seal import ForgedRecord
from streams_recovery.core.repository.undelete import Harm, Undelete
from streams_recovery.core.restore.parts.rebuild import RebuildPart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import TopicToDelete
from streams_recovery.core.restore.report import report_page
from streams_recovery.core.rollout.cutover import CutoverStep, cutover_plan, cutover_text, upgrade_plan, upgrade_text
from streams_recovery.operations.compaction import compaction_text
from streams_recovery.operations.maintenance import UndeletePlan, expiry_text
from streams_recovery.operations.maintenance.contents import Leftovers
from streams_recovery.operations.maintenance.expire import ExpirePlan
from streams_recovery.operations.restore import AppendPlan
from tests.support.examples.cutover import pair
from tests.support.examples.restore_plan import CLAIMED, IN_PLACE, PAST, PLAN, with_part
from tests.support.examples.restore_report import REPORT
from tests.support.hostile import HOSTILE, TEXTS, browser_text, markdown_text, spoiled


@given(TEXTS)
def test_visible_text_is_one_line_without_controls(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    assert len(shown) >= len(text), "nothing is left out"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-v1", "orders-v1"),
        ("Bestellungen für Österreich", "Bestellungen für Österreich"),
        ("a\nb\r\n", r"a\nb\r\n"),
        ("\x1b[2J\x9b1m\x00\x7f", r"\x1b[2J\u009b1m\x00\u007f"),
        ("safe\u202eevil\u2066\u200b", r"safe\u202eevil\u2066\u200b"),
        ("\u2028\u2029\x85", r"\u2028\u2029\u0085"),
        ("\udc80", r"\udc80"),
    ],
)
def test_what_controls_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_breaks_of_ours_stay() -> None:
    assert visible_lines("a\nb\x1b") == "a\nb\\x1b"


@given(TEXTS)
@example(HOSTILE)
def test_markdown_shows_it_literally_wherever_it_stands(text: str) -> None:
    page = joined(
        [
            md("### Title `x` of {}", text),
            md(""),
            md("> **Warning:** {}", text),
            md(""),
            md("{}", text),
            md(""),
            md("1. first {}", text),
            md(""),
            md("| a | b | c |"),
            md("|---|---|---:|"),
            md("| {} | {} | {:,} |", text, code(text), 1234),
            md(""),
            md("The end of {} .", code(text)),
        ]
    )
    shown = browser_text(visible(text))
    expected = [f"Title x of {shown}", f"Warning: {shown}", *([shown] if shown else []), f"first {shown}"]
    expected += ["a", "b", "c", shown, shown, "1,234", f"The end of {shown} ."]
    assert markdown_text(page) == list(map(browser_text, expected))


def test_what_is_harmless_reads_in_a_log_as_it_was_written() -> None:
    assert (
        md("{} {}", "my_app-counts.v1-changelog", "10.0.0.1:8080/x?y=1 (www, http)")
        == "my_app-counts.v1-changelog 10.0.0.1:8080/x?y=1 (www, http)"
    )
    assert md("| {} | {} |", "-", -1) == "| - | -1 |"
    assert code("orders_v1") == "`orders_v1`"
    assert md("{name}: {rows:,} {{x}}", name="a", rows=1000) == "a: 1,000 {x}"


# What remark-gfm, with which Airflow shows an approval, makes a link of: it looks at each piece of text, behind all escapes.
_LINK = re.compile(r"(https?://|www(?=\.))([-.\w]+)", re.IGNORECASE)


@pytest.mark.parametrize(
    "text", ["https://evil.example/a", "see HTTP://evil.example", "www.evil.example", "a WWW.evil.example b", "`https://e.x`"]
)
def test_an_address_in_a_name_from_elsewhere_is_no_link(text: str) -> None:
    assert _LINK.search(text)
    for shown in (md("group {}", text), code(text)):
        pieces = [
            piece.content for block in MarkdownIt("commonmark").parse(shown) for piece in (block.children or ()) if piece.type == "text"
        ]
        assert not any(_LINK.search(piece) for piece in pieces)
        assert text in markdown_text(shown)[0]


_PRESENT = DeletionOutlook(apply=Apply.AFTER_DAYS, scheduled=True, after_days=3, deletes_from=None, due=False)
_WHEN = 1_795_224_000_000
_CLAIMED = replace(
    PLAN, claimed=CLAIMED, source_application_id="other", warnings=("a group reads it",), delete=(TopicToDelete(name="t", topic_id="i"),)
)
_REBUILT = replace(_CLAIMED, part=RebuildPart(), savepoint_id=None, captured_at=None, consistency=None)
_CHANGE = OffsetChange(tp=TopicPartition("in", 0), before=3, after=None, same=False)
_DECISION = Decision(savepoint_id="s", captured_at=_WHEN, why_kept=("pinned by me",), survives_cluster_loss=True)
_EXPIRY = ExpirePlan(
    application_id="orders",
    keep=(_DECISION,),
    expire=(_DECISION,),
    expire_safety=("x",),
    files=(),
    bytes=0,
    forget=(),
    leftovers=Leftovers(
        work=(),
        kept=(KeptWork(run="run", why="why"),),
        staged=(StoredFile(key="k#1", bytes=1, modified=0),),
    ),
    unproven=(ForgedRecord(key="golden/pins/1.json", why="it has no seal"),),
    unproven_count=1,
    blocked="a manifest cannot be read",
    outlook=_PRESENT,
)


def append_text(names: tuple[str, ...]) -> Markdown:
    """The plan of an append whose partition is one of a topic of this name."""
    one, at = dict.fromkeys(("application_id", "restore_id", "savepoint_id"), names[0]), TopicPartition(names[0], 0)
    return AppendPlan(**one, moment=_WHEN, topics=(), rows={at: 1}, ends={at: 1}, present={at: 0}).text


def _text(plan: RestorePlan) -> Markdown:
    return plan.text


# Everything that a person reads before it is approved, and the page that is kept of it, with values that have text in each place.
OUTLETS: dict[str, tuple[Callable[..., Markdown], object]] = {
    "restore": (_text, _CLAIMED),
    "restore to a moment": (_text, with_part(replace(PAST, claimed=CLAIMED), in_place=IN_PLACE)),
    "rebuild": (_text, _REBUILT),
    "rebuild with inputs": (_text, replace(_REBUILT, part=RebuildPart(inputs_from="s"), offsets_kept=(TopicPartition("k", 0),))),
    "evidence": (
        lambda report: report_page(report, "e" * 64),
        replace(REPORT, reason="why", missing=("x-1",), still_held=("t",), safety_savepoint="s"),
    ),
    "cut over": (cutover_text, replace(cutover_plan(pair(), CutoverStep.CUT_OVER), warnings=("w",))),
    "roll back": (cutover_text, cutover_plan(pair(), CutoverStep.ROLL_BACK)),
    "upgrade": (upgrade_text, replace(upgrade_plan(pair()), warnings=("w",))),
    "compaction": (
        compaction_text,
        CompactionPlan(
            application_id="a",
            savepoint_id="s",
            how=How.LATEST_PER_KEY,
            files=1,
            topics=(TopicCompaction(topic="t", kind=StoreKind.UNKNOWN, ranges=(), stays=("why",), expected_rows=None),),
        ),
    ),
    "expiry": (expiry_text, _EXPIRY),
    "second place": (
        mirror_text,
        mirror_plan("orders", [MirroredObject(key="orders/k", bytes=1)], {"orders/k": 2}, [PassedOver(key="k", why="why")], place="p"),
    ),
    "append": (append_text, ("in",)),
    "offsets": (
        rollback_text,
        GroupChangePlan(
            application_id="a",
            action=GroupAction.ROLLBACK,
            what="s",
            groups=(GroupPlan(group_id="group", kind="k", streams=True, changes=(_CHANGE,), by_rule=(), warnings=("w", "x")),),
            left_out=(),
        ),
    ),
    "undelete": (
        commands._undelete_text,
        UndeletePlan(application_id="a", objects=(Undelete(key="k", version_id="v", bytes=1, harm=Harm.DELETED),)),
    ),
    "release": (lambda names: commands._release_text(*names), ("savepoint", "restore")),
    "preflight": (findings_text, (PreflightFinding(severity=PreflightSeverity.WARNING, kind="k", text="t", remedy=as_refused("r")),)),
}


@pytest.mark.parametrize("outlet", OUTLETS)
@settings(max_examples=25)
@given(TEXTS)
@example(HOSTILE)
def test_no_plan_and_no_report_loses_a_line_whatever_is_in_it(outlet: str, text: str) -> None:
    shown, value = OUTLETS[outlet]
    # Both begin with the same letter, so that whatever is sorted by name stays in its order.
    harmless, hostile = "gQZQ", f"g{text}"
    expected = [browser_text(line.replace(harmless, visible(hostile))) for line in _read(shown(spoiled(value, harmless)))]
    assert any(browser_text(visible(hostile)) in line for line in expected)
    assert _read(shown(spoiled(value, hostile))) == expected


def _read(text: Markdown) -> list[str]:
    assert isinstance(text, Markdown)
    assert visible_lines(text) == text
    # The hash is that of another plan.
    return [re.sub(r"Plan [0-9a-f]{12,64}([.,])", r"Plan\1", line) for line in markdown_text(text)]


@given(TEXTS)
@example(HOSTILE)
def test_an_error_is_one_line_and_only_a_file_has_several_mistakes(text: str) -> None:
    error = Refused(f"group {text}", next_step=f"look at {text}").then(f"cmd {text}")
    assert all(part.isprintable() for part in (error.reason, error.next_step, *error.commands))
    assert str(error).split("\n    ")[1:] == [visible(f"cmd {text}")]
    assert ConfigInvalid("a.yaml:1: x\nb.yaml:2: y\x1b", next_step="correct it").reason == "a.yaml:1: x\nb.yaml:2: y\\x1b"


def test_a_message_of_a_log_is_one_visible_line(caplog: pytest.LogCaptureFixture) -> None:
    logger("streams_recovery.test").warning("group %s of %d", HOSTILE, 3)
    [record] = caplog.records
    assert record.getMessage() == f"group {visible(HOSTILE)} of 3"


PACKAGE = Path(streams_recovery.__file__).parent
SOURCES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
ESCAPING = "core/escaping.py"


def calls(name: str) -> list[tuple[str, ast.Call]]:
    """Calls of a function by its name, as ``f()`` or ``module.f()``, with the file."""
    found = [(path, node) for path, tree in SOURCES.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(path, node) for path, node in found if getattr(node.func, "id", getattr(node.func, "attr", "")) == name]


def test_markdown_is_made_of_templates_of_ours_alone() -> None:
    assert {path for path, _ in calls("Markdown")} == {ESCAPING}
    templates = [(path, node.lineno, node.args[0]) for path, node in calls("md")]
    assert len(templates) > 100
    # A template that is put together could have a value in it.
    assert [found[:2] for found in templates if not isinstance(found[2], ast.Constant)] == []


def test_every_logger_is_one_that_makes_text_visible() -> None:
    assert {path for path, _ in calls("getLogger")} == {ESCAPING, "cli/screen.py", "kafka/clients.py"}


def test_each_component_of_airflow_logs_visible_text() -> None:
    bases = {"BaseOperator", "BaseSensorOperator", "BaseTrigger", "ApprovalOperator", "SparkSubmitOperator"}
    found = [
        (path, node.name, [getattr(base, "id", "") for base in node.bases])
        for path, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and bases & {getattr(base, "id", "") for base in node.bases}
    ]
    assert len(found) > 8
    assert [one for one in found if one[2][0] != "Logged"] == []


def test_nothing_but_the_screen_prints() -> None:
    printing = {"print", "echo", "secho", "prompt", "confirm", "Console", "Table"}
    found = {path for name in printing for path, _ in calls(name) if path.startswith("cli/")}
    named = {path for path, tree in SOURCES.items() if path.startswith("cli/") and "sys.stdout.write" in ast.unparse(tree)}
    assert found | named == {"cli/screen.py"}
