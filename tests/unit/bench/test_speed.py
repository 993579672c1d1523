"""The benchmark: what its options mean, the data, and what the other program is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
import zstandard

from bench import speed
from bench.bare import BLOCK, CASES, Case, blocks, keys, values
from bench.rival import Rival, version


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


# Data

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_value_has_its_length_and_is_another_one(case: Case) -> None:
    data, size = values(case, 7, 300), case.value_bytes
    assert len(data) == 300 * size
    assert len({data[at : at + size] for at in range(0, len(data), size)}) == 300


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_looks_like_json_is_and_compresses_and_what_is_random_does_not(case: Case) -> None:
    data = values(case, 7, 1000)
    ratio = len(data) / len(zstandard.compress(data, 3))
    if case.random:
        assert ratio < 1.01
        return
    assert 4 < ratio < 9
    assert [json.loads(data[at : at + case.value_bytes])["order"] for at in (0, 5 * case.value_bytes)] == [7, 12]


def test_keys_have_16_bytes_and_as_many_updates_as_the_case_says() -> None:
    for name, distinct in (("150b", 1000), ("updates", 100)):
        found = keys(BY_NAME[name], 0, 1000, 1000)
        assert {len(key) for key in found} == {16}
        assert (len(found), len(set(found))) == (1000, distinct)


def test_steps_are_all_records_of_a_partition_once() -> None:
    for each in (1, BLOCK, 2 * BLOCK + 3):
        assert [number for first, count in blocks(each) for number in range(first, first + count)] == list(range(each))


def test_a_case_of_1_kb_has_fewer_records_and_every_partition_the_same_number() -> None:
    assert BY_NAME["150b"].records(2_000_000, 4) == 2_000_000
    assert BY_NAME["1kb"].records(2_000_000, 4) == 600_000
    assert BY_NAME["1kb"].records(99, 4) == 28


# The other program


def configuration(command: list[str], mode: str) -> dict[str, object]:
    """What the file says that a command names."""
    assert command[:3] == ["/bin/kafka-backup", mode, "--config"]
    found = yaml.safe_load(Path(command[3]).read_text())
    assert found["mode"] == mode
    return dict(found)


def rival(directory: Path) -> Rival:
    return Rival(program=Path("/bin/kafka-backup"), bootstrap="127.0.0.1:9092", directory=directory / "rival")


def test_the_other_program_copies_one_topic_with_zstd_3_and_four_partitions_at_once_and_ends(tmp_path: Path) -> None:
    found = configuration(rival(tmp_path).backup("totals", "one"), "backup")
    assert found["source"] == {"bootstrap_servers": ["127.0.0.1:9092"], "topics": {"include": ["totals"]}}
    assert found["storage"] == {"backend": "filesystem", "path": str(tmp_path / "rival")}
    assert found["backup"] == {
        "compression": "zstd",
        "compression_level": 3,
        "stop_at_current_offsets": True,
        "isolation_level": "read_committed",
        "include_offset_headers": False,
        "max_concurrent_partitions": 4,
    }


def test_the_other_program_loads_the_same_copy_into_the_other_topic(tmp_path: Path) -> None:
    backup = configuration(rival(tmp_path).backup("totals", "one"), "backup")
    found = configuration(rival(tmp_path).restore("totals", "one", "totals-again"), "restore")
    assert (found["backup_id"], found["storage"]) == (backup["backup_id"], backup["storage"])
    assert found["target"] == {"bootstrap_servers": ["127.0.0.1:9092"], "topics": {"include": ["totals"]}}
    assert found["restore"] == {"topic_mapping": {"totals": "totals-again"}, "max_concurrent_partitions": 4, "restore_topic_configs": False}


def test_what_the_other_program_stored_is_its_segments_of_that_copy(tmp_path: Path) -> None:
    for backup, name, size in (("one", "segment-0.bin.zst", 5), ("one", "manifest.json", 100), ("two", "segment-0.bin.zst", 1000)):
        directory = tmp_path / "rival" / backup / "topics" / "totals" / "partition=0"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"x" * size)
    assert rival(tmp_path).stored("one") == 5


def test_a_program_that_names_no_version_is_of_unknown_version(tmp_path: Path) -> None:
    for name, says, expected in (("old", "echo kafka-backup 0.25.2", "kafka-backup 0.25.2"), ("silent", "exit 2", "of unknown version")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
        assert version(program) == expected
