"""The picture of tasks and their order."""

from __future__ import annotations

from xml.etree import ElementTree

from documentation.graph import Node, direct, drawn, rows

DIAMOND = {"begin": ["left", "right", "end"], "left": ["end"], "right": ["end"], "end": []}


def test_tasks_that_may_run_together_are_in_one_row() -> None:
    assert rows(DIAMOND) == [["begin"], ["left", "right"], ["end"]]


def test_an_arrow_that_another_way_says_already_is_left_out() -> None:
    assert sorted(direct(DIAMOND)) == [("begin", "left"), ("begin", "right"), ("left", "end"), ("right", "end")]


def test_a_long_arrow_that_is_needed_stays() -> None:
    assert ("one", "four") in direct({"one": ["two", "four"], "two": ["three"], "three": [], "four": []})


def test_every_task_is_drawn_with_its_colour() -> None:
    svg = ElementTree.fromstring(
        drawn("Four tasks", [Node(name="begin"), Node(name="left", colour="b"), Node(name="right"), Node(name="end")], DIAMOND)
    )
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"begin", "left", "right", "end", "Spark job"} <= set(texts)
    assert "waits for a person" not in texts, "a legend has what is in the picture"


def test_two_things_that_are_true_of_a_task_are_both_drawn() -> None:
    both = drawn("One task", [Node(name="load", colour="d", edge="b")], {"load": []})
    assert "Spark job" in both
    assert "application held or down" in both
