"""The pages that lead from nothing to a first restore are followed, command by command, and each prints what is shown below it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from streams_recovery.core.waiting import poll
from tests.support.applications.kafka_demos import OUTPUT, WORD_COUNT, word_count_demo
from tests.support.page_commands import arguments
from tests.support.terminal import Here
from tests.support.walk import PAGES, missing, steps

pytestmark = [pytest.mark.kafka, pytest.mark.deep, pytest.mark.timeout(1_800)]
STORE: Final = "/srv/savepoints"
CONTROL: Final = "/opt/streams-wordcount/control"


def answers(command: str, places: Mapping[str, str]) -> tuple[str, ...]:
    """What somebody types who follows the pages: to the questions of the first command, and the id below a plan."""
    if command.startswith("streams-recovery init"):
        return ("command", places[CONTROL], OUTPUT, "", places[STORE], "yes")
    asks = "--reason" in command and "--plan" not in command
    return (WORD_COUNT,) if asks else ()


def test_the_pages_are_followed_to_a_first_restore(own_bootstrap: str, tmp_path: Path) -> None:
    wrong = list[str]()
    with word_count_demo(own_bootstrap, tmp_path) as demo:
        here = Here(tmp_path / "configs", own_bootstrap)
        places = {CONTROL: str(demo.control), STORE: str(tmp_path / "repository")}
        demo.say("all streams lead to kafka", "hello kafka streams")
        followed = [step for page in PAGES for step in steps(page) if step.command.endswith(" init") or WORD_COUNT in step.command]
        assert [step.command.split()[1] for step in followed][:3] == ["init", "preflight", "backup"]
        for step in followed:
            if "--plan" in step.command:
                # What the savepoint has not, so that the plan goes back.
                demo.say("one more line")
            told = here.asked(*arguments(step.command), answers=answers(step.command, places))
            assert told.code == 0, f"{step.page}: {step.command}: {told.err}"
            # The question stands in a line with what follows it: nobody ends the lines that are typed.
            printed = f"{told.err}\n{told.out}\n{told.err}".replace(f" --configs {here.configs}", "")
            for shown, real in places.items():
                printed = printed.replace(real, shown)
            wrong += [f"{step.page}: {step.command}: {one}" for one in missing(step.shown or "", printed)]
            if step.command.startswith("streams-recovery undo"):
                assert poll(lambda: "running" in demo.run("status") or None, seconds=60, interval=0.5), "it works again"
    assert wrong == []
