"""docs/reliability.md says which test proves each promise, and it is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import marked_faults
from tests.support.marked_faults import FAULTS, PAGE, filled, marked, problems, sections

TEST = "tests/unit/test_it.py::test_a"
MARKS = {fault: [TEST] for fault in FAULTS}
GOOD = "# Reliability\n\n## One promise\n\nAs follows.\n\n" + "".join(
    f"### {fault} · It breaks\n\nIt holds.\n\n- `{TEST}`\n\n" for fault in FAULTS
)


def test_the_page_names_every_fault_with_the_tests_that_are_marked_for_it() -> None:
    assert problems(PAGE.read_text(), marked()) == [], "write the tests onto the page: python -m tests.support.marked_faults"


def test_the_page_has_the_tests_where_they_are_written() -> None:
    assert filled(PAGE.read_text(), marked()) == PAGE.read_text()


@pytest.mark.parametrize(
    ("old", "new", "marks", "told"),
    [
        (f"- `{TEST}`\n\n### F8 ", "### F8 ", {**MARKS, "F7": []}, "F7 has no test"),
        (
            f"- `{TEST}`\n\n### F8 ",
            "- planned: some day\n\n### F8 ",
            {**MARKS, "F7": []},
            "F7 has no test",
        ),
        (f"- `{TEST}`\n\n### F8 ", f"- `{TEST}x`\n- `{TEST}`\n\n### F8 ", MARKS, f"F7 names {TEST}x, which does not carry its mark"),
        ("As follows", "As follows", {**MARKS, "F7": [TEST, f"{TEST}b"]}, f"{TEST}b is marked with F7 and not on the page"),
        ("As follows", "As follows", {**MARKS, "F99": [TEST]}, "F99 is not one of the faults"),
        ("### F7 ·", "### F8 ·", MARKS, "F7 is on the page 0 times"),
        ("### F7 ·", "### F8 ·", MARKS, "F8 is on the page 2 times"),
        ("### F7 ·", "### F98 ·", MARKS, "F98 is not one of the faults"),
    ],
)
def test_whatever_is_missing_wrong_or_too_much_is_told(old: str, new: str, marks: dict[str, list[str]], told: str) -> None:
    assert problems(GOOD, MARKS) == []
    assert told in problems(GOOD.replace(old, new, 1), marks)


def test_writing_the_tests_keeps_the_words_and_changes_nothing_twice() -> None:
    page = GOOD.replace(f"- `{TEST}`\n\n### F8 ", "### F8 ", 1)
    marks = {**MARKS, "F7": [TEST, f"{TEST}b"], "F9": [f"{TEST}c"]}
    once = filled(page, marks)
    assert problems(once, marks) == []
    assert filled(once, marks) == once
    assert dict(sections(once))["F7"] == f"\nIt holds.\n\n- `{TEST}`\n- `{TEST}b`\n\n"
    assert [fault for fault, _ in sections(once)] == list(FAULTS)
    assert once.startswith("# Reliability\n\n## One promise\n\nAs follows.\n\n### F1 ·")


def test_marks_are_read_without_importing_what_carries_them(tmp_path: Path) -> None:
    (tmp_path / "tests" / "deep").mkdir(parents=True)
    (tmp_path / "tests" / "deep" / "test_it.py").write_text(
        "import nowhere\n"
        '@pytest.mark.fault("F1", "F2")\n@pytest.mark.deep\ndef test_a(): ...\n'
        '@pytest.mark.fault("F1")\ndef test_b(): ...\n'
        '@other.fault("F3")\ndef test_c(): ...\n'
    )
    found = marked(tmp_path / "tests")
    assert found == {"F1": [f"tests/deep/test_it.py::test_{which}" for which in "ab"], "F2": ["tests/deep/test_it.py::test_a"]}
    assert marked_faults.marked() != {}
