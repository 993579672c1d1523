"""What the options of the benchmark mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import speed
from bench.bare import CASES


def test_without_options_everything_is_measured_in_both_ways() -> None:
    asked = speed.parsed([])
    assert asked.case == [case.name for case in CASES]
    assert (asked.records, asked.rounds, asked.ways) == ((2_000_000, 20_000_000), 3, ("native", "plain"))


def test_quick_is_small_and_what_is_said_beside_it_counts() -> None:
    asked = speed.parsed(["--quick", "--case", "headers", "--ways", "plain"])
    assert (asked.case, asked.records, asked.rounds, asked.ways) == (["headers"], (100_000, 400_000), 1, ("plain",))
    assert speed.parsed(["--quick", "--records", "5_000,7000", "--rounds", "2"]).records == (5000, 7000)


def test_a_way_that_there_is_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        speed.parsed(["--ways", "native,fast"])
    assert "there is no way fast" in capsys.readouterr().err


def test_tables_are_shown_again_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        {"case": "150b", "records": size, "what": "backup", "by": "plain", "whole": size / 1e5, "cpu": 1.0} for size in (100_000, 300_000)
    ]
    (tmp_path / "bench.json").write_text(json.dumps({"machine": {"cores:": 2}, "runs": runs}))
    monkeypatch.setattr("sys.argv", ["speed.py", "--read", str(tmp_path / "bench.json"), "--markdown"])
    speed.main()
    shown = capsys.readouterr().out
    assert "Measured cores: 2." in shown
    assert "| 150b | 300,000 | plain | 3.0 |" in shown
    assert "Restore" not in shown
    assert "| 150b | backup | plain | 10.00 | 10.00 | 0.00 | 0.0 |" in shown
