"""The site is built without network and without a broken link, and its pictures, such as that of tasks, can be read on light and on dark pages."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from documentation.graph import Node, direct, drawn, rows
from documentation.hooks import inlined, linked_files, relinked
from documentation.picture import STYLE
from tests.support.project import PROJECT
from tests.support.site import build

DOCS = PROJECT / "docs"
PICTURES = sorted(DOCS.rglob("*.svg"))
# What a browser would load from elsewhere while it shows a page.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc="?(https?:)?//|<link[^>]*rel="?(?:stylesheet|preconnect|icon)[^>]*href="?(https?:)?//"""
)


@pytest.mark.timeout(1_200)
def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    written = sorted(tmp_path.rglob("*.html"))
    assert len(written) > 40
    # Pages of which docs has no file.
    assert "ApplicationNotReady" in (tmp_path / "messages.html").read_text(encoding="utf-8")
    # A search for the words of an error finds the page that says what to do next.
    assert "is there already, and nothing is written over it" in (tmp_path / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "survive_cluster_loss" in (tmp_path / "configuration-keys.html").read_text(encoding="utf-8")
    assert "tests/integration/test_changed_logs.py::test_a_topic_that_was_created_again" in (tmp_path / "reliability.html").read_text(
        encoding="utf-8"
    )
    assert (tmp_path / "files/include/kubernetes/rbac.yaml").read_bytes() == (PROJECT / "include/kubernetes/rbac.yaml").read_bytes()
    assert [page.name for page in written if LOADED.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://unpkg.com/x.js">',
        '<link href="//fonts.example" rel="icon">',
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<img alt="a" src="http://b/c.png">',
    ],
)
def test_what_is_loaded_from_elsewhere_would_be_found(tag: str) -> None:
    assert bool(LOADED.search(tag)) == ('fonts.example" rel' not in tag)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_has_the_colours_of_all(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert STYLE in text
    assert not re.search(r'(fill|stroke)="#', text), "colours are classes, so that they change with the page"


def test_the_page_s_colours_are_those_of_the_pictures() -> None:
    site = (DOCS / "assets" / "site.css").read_text(encoding="utf-8")
    for colours in re.findall(r"\{(--ink:[^}]*)\}", STYLE):
        assert colours in site
    rest = [line for line in STYLE.splitlines() if line.startswith(".diagram ")]
    assert [line for line in rest if line not in site] == []


def test_a_picture_becomes_a_part_of_its_page(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(f"<svg>\n{STYLE}\n<text>hello</text></svg>")
    found = inlined("before\n\n![What it shows](a.svg)\n\nin a line ![small](a.svg)\n\n![gone](b.svg)\n", tmp_path)
    assert '<figure class="drawing" aria-label="What it shows"><svg> <text>hello</text></svg></figure>' in found
    assert "![gone](b.svg)" in found
    assert "![small](a.svg)" in found


def test_a_link_to_a_file_of_the_project_leads_to_a_file_of_the_site() -> None:
    text = "[rights](../include/kubernetes/rbac.yaml), [values](../../deploy/airflow-values.yaml), [page](../storage.md), [code](../plugins/a.py)"
    assert linked_files(text) == ["include/kubernetes/rbac.yaml", "deploy/airflow-values.yaml"]
    assert relinked(text, "runbooks/a.md") == (
        "[rights](../files/include/kubernetes/rbac.yaml), [values](../files/deploy/airflow-values.yaml), [page](../storage.md), [code](../plugins/a.py)"
    )


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
