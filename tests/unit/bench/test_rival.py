"""What the other program is told."""

from __future__ import annotations

from pathlib import Path

import yaml

from bench.rival import Rival, version


def configuration(command: list[str], mode: str) -> dict[str, object]:
    """What the file says that a command names."""
    assert command[:3] == ["/bin/kafka-backup", mode, "--config"]
    found = yaml.safe_load(Path(command[3]).read_text())
    assert found["mode"] == mode
    return dict(found)


def rival(directory: Path) -> Rival:
    return Rival(program=Path("/bin/kafka-backup"), bootstrap="127.0.0.1:9092", directory=directory / "rival")


def test_it_copies_one_topic_with_zstd_3_and_four_partitions_at_once_and_ends(tmp_path: Path) -> None:
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


def test_it_loads_the_same_copy_into_the_other_topic(tmp_path: Path) -> None:
    backup = configuration(rival(tmp_path).backup("totals", "one"), "backup")
    found = configuration(rival(tmp_path).restore("totals", "one", "totals-again"), "restore")
    assert (found["backup_id"], found["storage"]) == (backup["backup_id"], backup["storage"])
    assert found["target"] == {"bootstrap_servers": ["127.0.0.1:9092"], "topics": {"include": ["totals"]}}
    assert found["restore"] == {"topic_mapping": {"totals": "totals-again"}, "max_concurrent_partitions": 4, "restore_topic_configs": False}


def test_what_it_stored_is_its_segments_of_that_copy(tmp_path: Path) -> None:
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
