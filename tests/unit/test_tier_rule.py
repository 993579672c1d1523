"""The rule of ``make test``: held by every test that there is, and what it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tier_rule import MOST, WAYS, Marked, marked_tests, problems, product_workflows


def test_make_test_has_the_quickest_tests_of_each_fault_and_way() -> None:
    assert problems(marked_tests(), WAYS) == []


def test_every_workflow_of_the_product_is_a_way() -> None:
    known = [workflow for workflow in WAYS.values() if workflow is not None]
    assert len(known) > 20
    assert [workflow.all_steps for workflow in product_workflows() if not any(workflow is one for one in known)] == []


def one(name: str, *, deep: bool = False, costly: bool = True, real: bool = True, faults: str = "", ways: str = "") -> Marked:
    return Marked(test=name, real=real, costly=costly, deep=deep, faults=tuple(faults.split()), ways=tuple(ways.split()))


UNDONE = [one("a", ways="undo"), one("b", ways="undo")]


@pytest.mark.parametrize(
    ("tests", "told"),
    [
        ([one("c", faults="F7")], ""),
        ([one("c", faults="F7", real=False, costly=False)], ""),
        ([one("c", faults="F7", deep=True), one("d", faults="F7", real=False, costly=False)], "F7: 0 of its tests"),
        ([one("c", faults="F7", deep=True), one("d", faults="F7", costly=False)], ""),
        ([one(str(number), faults="F7") for number in range(MOST)], ""),
        ([one(str(number), faults="F7") for number in range(MOST + 1)], f"F7: {MOST + 1} tests with a broker"),
        ([one(str(number), faults="F7", deep=number == 0) for number in range(MOST + 1)], ""),
        ([one(str(number), faults="F7", costly=False) for number in range(MOST + 1)], ""),
        ([one(str(number), ways="undo") for number in range(MOST - 1)], f"undo: {MOST + 1} tests with a broker"),
        ([one("c", ways="nowhere")], "nowhere: there is no such way"),
    ],
)
def test_a_fault_has_one_test_on_real_parts_and_few_that_cost(tests: list[Marked], told: str) -> None:
    found = problems([*UNDONE, *tests], ["undo"])
    assert len(found) == bool(told)
    assert "".join(found).startswith(told)


@pytest.mark.parametrize(
    ("tests", "told"),
    [
        (UNDONE, []),
        ([one("a", ways="undo")], []),
        ([one("a", ways="undo"), one("b", ways="undo", deep=True)], ["undo: 1 of its tests on real parts in make test, 2 are needed: b"]),
        ([], ["undo: no test goes this way"]),
    ],
)
def test_a_way_is_gone_by_two(tests: list[Marked], told: list[str]) -> None:
    assert problems(tests, ["undo"]) == told


def test_marks_are_read_from_source(tmp_path: Path) -> None:
    for folder, text in {
        "integration": '@pytest.mark.fault("F1", "F2")\n@pytest.mark.deep\ndef test_a(): ...\n@pytest.mark.way("undo")\n@other\ndef test_b(): ...\n',
        "dags": "pytestmark = [pytest.mark.kafka, pytest.mark.timeout(9)]\ndef helper(): ...\ndef test_c(): ...\n",
        "contracts": 'pytestmark = pytest.mark.deep\n@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.deep)])\ndef test_d(n): ...\n',
        "unit": "@pytest.mark.kafka\ndef test_e(): ...\n",
    }.items():
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / "test_it.py").write_text(f"import nowhere\n{text}")
    contract, dag, first, second, unit = marked_tests(tmp_path / "tests")
    assert (contract.test, contract.deep, contract.real, contract.costly) == ("tests/contracts/test_it.py::test_d", True, True, False)
    assert (dag.deep, dag.real, dag.costly) == (False, True, True)
    assert (first.faults, first.ways, first.deep, first.real) == (("F1", "F2"), (), True, True)
    assert (second.faults, second.ways, second.deep, second.costly) == ((), ("undo",), False, True)
    assert (unit.real, unit.costly) == (False, False)
