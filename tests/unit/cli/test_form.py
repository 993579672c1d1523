"""What is written on the command line becomes the typed request of its form, and what does not fit together is a usage error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from streams_recovery.cli.app import app
from streams_recovery.cli.form import Call, asks, parameter
from streams_recovery.cli.rebuild import names
from streams_recovery.cli.restore import requested
from streams_recovery.config.loader import load_application
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets.strategies import Earliest, Shift
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.request import OutputPolicy, Safeguards, SafetyPolicy
from streams_recovery.core.restore.single_topics import ReadOn
from streams_recovery.core.words import parse_moment
from streams_recovery.operations.restore.strategies import (
    STRATEGIES,
    AsOfMoment,
    Failover,
    FromSavepoint,
    Rebuild,
    RestoreRequest,
    RestoreTopics,
    Undo,
    UpgradeInPlace,
)
from streams_recovery.operations.restore.strategies.rebuild import INPUT_TOPICS, INTERNAL_TOPICS

NAME = "order-processing"
CONFIG = load_application(NAME)
APPLICATION_ID = CONFIG.application.id
CONFIRMED = Safeguards(confirm=APPLICATION_ID)
MOMENT = "2026-11-21T12:00:00Z"
DESCRIBED = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [left])
      --> KSTREAM-AGGREGATE-0000000001
    Processor: KSTREAM-AGGREGATE-0000000001 (stores: [totals])
      --> none
      <-- KSTREAM-SOURCE-0000000000

"""


def asked(strategy: type[RestoreRequest], *words: str) -> RestoreRequest:
    """The request that a command with the form of this strategy makes."""
    found: list[RestoreRequest] = []

    @asks(*strategy.FORM)
    def command(call: Call) -> None:
        found.append(requested(call, strategy))

    program = typer.Typer()
    program.command()(command)
    result = CliRunner().invoke(program, [NAME, "--reason", "why", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    [request] = found
    return request


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (FromSavepoint(reason="why", safeguards=CONFIRMED), ()),
        (
            FromSavepoint(
                reason="why",
                source=APPLICATION_ID,
                savepoint="one",
                allow_ahead=True,
                allow_damaged=True,
                compare_keys=True,
                offsets=Shift(text="shift:-3", by=-3),
                safeguards=Safeguards(replace=True, delete=("a", "b"), safety=SafetyPolicy.SKIP, confirm=APPLICATION_ID),
            ),
            (
                *("--source", NAME, "--savepoint", "one", "--allow-ahead", "--allow-damaged", "--compare-keys", "--offsets", "shift:-3"),
                *("--replace", "--delete", "a", "--delete", "b", "--safety", "skip"),
            ),
        ),
        (
            AsOfMoment(
                reason="why",
                as_of=AsOf(moment=parse_moment(MOMENT), by=CutBy.POSITION),
                savepoint="none",
                in_place=True,
                groups=("one", "two"),
                safeguards=CONFIRMED,
            ),
            ("--as-of", MOMENT, "--by", "position", "--savepoint", "none", "--in-place", "--other-group", "one", "--other-group", "two"),
        ),
        (Undo(reason="why", restore_id="r7", safeguards=Safeguards(replace=True, confirm=APPLICATION_ID)), ("--restore", "r7")),
        (Failover(reason="why", to="dr", lost="primary", safeguards=CONFIRMED), ("--to", "dr", "--lost", "primary")),
        (
            Rebuild(
                reason="why",
                offsets=Earliest(text="earliest"),
                input_topics=("a", "b"),
                internal_topics=("c",),
                inputs_from="latest",
                accept_gap=True,
                outputs=OutputPolicy.RECREATE,
                safeguards=CONFIRMED,
            ),
            (
                *("--input-topics", "a", "--input-topics", "b", "--internal-topics", "c", "--inputs-from", "latest", "--accept-gap"),
                *("--outputs", "recreate"),
            ),
        ),
        (
            RestoreTopics(reason="why", topics=("a", "b"), partitions=(0, 3), read_on=ReadOn.END),
            ("--topic", "a", "--topic", "b", "--partition", "0", "--partition", "3", "--read-on", "end"),
        ),
        (
            RestoreTopics(
                reason="why",
                topics=("a",),
                new_name="b",
                cut_at=AsOf(moment=parse_moment(MOMENT), by=CutBy.TIMESTAMP),
            ),
            ("--topic", "a", "--as", "b", "--as-of", MOMENT),
        ),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, tuple) else "",
)
def test_options_become_the_request(expected: Any, words: tuple[str, ...]) -> None:
    assert asked(type(expected), *words) == expected


def test_every_form_has_a_command_line_here() -> None:
    for strategy in STRATEGIES.values():
        assert asks(*strategy.FORM)(print)


def test_names_with_commas_are_several_topics() -> None:
    found: list[Rebuild] = []

    @asks(
        *Rebuild.FORM,
        input_topics=parameter(INPUT_TOPICS, callback=names),
        internal_topics=parameter(INTERNAL_TOPICS, callback=names),
    )
    def command(call: Call) -> None:
        found.append(requested(call, Rebuild))

    program = typer.Typer()
    program.command()(command)
    words = [NAME, "--plan", "--input-topics", "a,b", "--input-topics", "c", "--internal-topics", "d, e"]
    assert CliRunner().invoke(program, words, catch_exceptions=False).exit_code == 0
    assert [(one.input_topics, one.internal_topics, one.reason) for one in found] == [(("a", "b", "c"), ("d", "e"), "by hand")]
    assert CliRunner().invoke(program, [NAME, "--plan", "--input-topics", "a,"]).exit_code == 2


def test_the_configured_moment_is_named_and_there_has_to_be_one() -> None:
    with pytest.raises(ConfigInvalid, match="no moment is given"):
        asked(AsOfMoment, "--as-of", "configured")


@pytest.mark.parametrize(
    ("words", "option", "why"),
    [
        (("restore", "--in-place"), "--in-place", "name one with --as-of"),
        (("restore", "--other-group", "x"), "--other-group", "name one with --as-of"),
        (("restore", "--as-of", MOMENT, "--offsets", "latest"), "--offsets", "goes on where its state ends"),
        (("upgrade", "--in-place", "--safety", "skip"), "--safety", "an upgrade to a clone"),
        (("upgrade", "--in-place", "--delete", "a"), "--delete", "an upgrade to a clone"),
        (("upgrade", "--watch", "PT5M"), "--watch", "an upgrade in place"),
        (("upgrade", "--lose", "a"), "--lose", "an upgrade in place"),
        (("rebuild", "--input-topics", "a,,b"), "--input-topics", "is empty"),
    ],
)
def test_what_does_not_fit_together_is_a_usage_error(words: tuple[str, ...], option: str, why: str) -> None:
    refused = CliRunner().invoke(app, [words[0], NAME, "--plan", *words[1:]])
    assert refused.exit_code == 2, refused.output
    text = " ".join(refused.stderr.split())
    assert option in text
    assert why in text


def test_the_description_of_a_version_is_a_file(tmp_path: Path) -> None:
    topology = tmp_path / "topology.txt"
    words = ("--topology", str(topology), "--lose", "a", "--lose", "b", "--same", "c", "--allow-doubt", "--watch", "PT5M")
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        asked(UpgradeInPlace, *words)
    topology.write_text(DESCRIBED, encoding="utf-8")
    assert asked(UpgradeInPlace, *words) == UpgradeInPlace(
        reason="why", topology=DESCRIBED, lose=("a", "b"), same=("c",), allow_doubt=True, watch="PT5M"
    )
