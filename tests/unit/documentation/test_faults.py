"""docs/reliability.md has every fault, a test proves each, and the site names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from documentation.faults import FAULTS, PAGE, filled, marked, problems
from tests.support.project import PROJECT

TEST = "tests/unit/test_it.py::test_a"
MARKS = {fault: [TEST] for fault in FAULTS}
GOOD = "# Reliability\n\n## One promise\n\nAs follows.\n\n" + "".join(f"### {fault} · It breaks\n\nIt holds.\n\n" for fault in FAULTS)


def test_the_page_has_every_fault_and_each_has_a_test() -> None:
    assert problems((PROJECT / "docs" / PAGE).read_text(encoding="utf-8"), marked()) == []


@pytest.mark.parametrize(
    ("old", "new", "marks", "told"),
    [
        ("As follows", "As follows", {**MARKS, "F7": []}, "F7 has no test"),
        ("As follows", "As follows", {**MARKS, "F999": [TEST]}, "F999 is not one of the faults"),
        ("### F7 ·", "### F8 ·", MARKS, "F7 is on the page 0 times"),
        ("### F7 ·", "### F8 ·", MARKS, "F8 is on the page 2 times"),
        ("### F7 ·", "### F998 ·", MARKS, "F998 is not one of the faults"),
    ],
)
def test_whatever_is_missing_wrong_or_too_much_is_told(old: str, new: str, marks: dict[str, list[str]], told: str) -> None:
    assert problems(GOOD, MARKS) == []
    assert told in problems(GOOD.replace(old, new, 1), marks)


def test_the_site_has_the_tests_below_each_fault_and_the_same_words() -> None:
    page = filled(GOOD, {**MARKS, "F7": [TEST, f"{TEST}b"]})
    assert f"### F7 · It breaks\n\nIt holds.\n\n- `{TEST}`\n- `{TEST}b`\n\n### F8 ·" in page
    assert page.startswith("# Reliability\n\n## One promise\n\nAs follows.\n\n### F1 ·")
    assert page.count(TEST) == len(FAULTS) + 1


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
