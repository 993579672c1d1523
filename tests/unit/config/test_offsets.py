"""A run's word on offsets goes before the configuration's, and a name of a file leads nowhere but into the directory of configurations.

A run's word on the moment goes before the configuration's, and without either there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.offsets import anywhere, as_of, inside, offset_strategy
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.given_offsets import MAX_FILE_BYTES, ReadFile
from streams_recovery.core.offsets.strategies import File
from streams_recovery.core.restore.point_in_time import AsOf
from tests.support.examples.configurations import MINIMAL

OFFSETS = {TopicPartition("orders-in", 0): 7}


def configured(directory: Path, rule: str | None) -> ApplicationConfig:
    text = MINIMAL if rule is None else f"{MINIMAL}restore:\n  consumer_group_strategy: {rule}\n"
    (directory / "orders.yaml").write_text(text)
    return load(directory / "orders.yaml", {})


def given(config: ApplicationConfig, requested: str, read: ReadFile) -> Mapping[TopicPartition, int]:
    strategy = offset_strategy(config, requested, read=read)
    assert isinstance(strategy, File)
    return strategy.given


@pytest.mark.parametrize(
    ("rule", "asked", "kind"),
    [(None, "", "exact"), ("shift:-100", "", "shift"), ("earliest", "exact", "exact"), ("timestamp:2026-11-21T12:00:00Z", "", "timestamp")],
)
def test_what_a_run_asks_for_goes_first(tmp_path: Path, rule: str | None, asked: str, kind: str) -> None:
    assert kind == offset_strategy(configured(tmp_path, rule), asked, read=inside(tmp_path)).KIND


@pytest.mark.parametrize(
    "rule", ["oldest", "timestamp:2026-11-21T12:00:00", "shift:x", "specific:orders", '"file:"', "file:../x", "file:/etc/offsets.csv"]
)
def test_a_configured_strategy_is_checked_when_it_is_loaded(tmp_path: Path, rule: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"orders\.yaml:\d+: restore.consumer_group_strategy"):
        configured(tmp_path, rule)


def test_a_file_is_found_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "offsets.csv").write_text("orders,orders-in,0,7\n")
    assert given(configured(tmp_path, "file:offsets.csv"), "", inside(tmp_path)) == OFFSETS
    (tmp_path / "real").write_text("orders-in,0,7\n")
    (tmp_path / "link.csv").symlink_to("real")
    assert given(configured(tmp_path, None), "file:link.csv", inside(tmp_path)) == OFFSETS


@pytest.mark.parametrize("name", ["../outside.csv", "{absolute}", "link.csv", "sub/../../outside.csv"])
def test_a_name_that_leads_out_of_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    home = tmp_path / "configs"
    home.mkdir()
    (tmp_path / "outside.csv").write_text("orders-in,0,7\n")
    (home / "link.csv").symlink_to(tmp_path / "outside.csv")
    asked = name.format(absolute=tmp_path / "outside.csv")
    with pytest.raises(ConfigInvalid, match="is not in"):
        offset_strategy(configured(home, None), f"file:{asked}", read=inside(home))
    assert given(configured(home, None), f"file:{tmp_path / 'outside.csv'}", anywhere) == OFFSETS


def test_a_file_that_is_not_there_or_has_no_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        inside(tmp_path)("nothing.csv")
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        anywhere(str(tmp_path))
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        anywhere("nul\0")
    assert len(anywhere("/dev/zero")) == MAX_FILE_BYTES + 1, "and what is so long is refused when it is parsed"


def ending_at(directory: Path, moment: str) -> ApplicationConfig:
    (directory / "orders.yaml").write_text(f"{MINIMAL}restore:\n  time_window_end: {moment}\n")
    return load(directory / "orders.yaml", {})


@pytest.mark.parametrize(
    ("moment", "asked", "found"),
    [
        ("2026-11-21T13:00:00.0015+01:00", "", 1_795_262_400_001),
        ("2026-11-21T12:00:00Z", "  ", 1_795_262_400_000),
        ("2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z", 1_795_262_401_000),
        ("null", "2026-11-21T12:00:01Z", 1_795_262_401_000),
        ("2026-11-21T13:00:00 Europe/Vienna", "", 1_795_262_400_000),
    ],
)
def test_the_moment_that_a_run_asks_for_goes_first(tmp_path: Path, moment: str, asked: str, found: int) -> None:
    assert as_of(ending_at(tmp_path, moment), asked, "position") == AsOf(moment=found, by=CutBy.POSITION)


@pytest.mark.fault("F59")
@pytest.mark.parametrize("moment", ["20261121", "1795262400", "'1795262400000'", "1.5", "yes", "2026-11-21", "0001-01-01T00:00:00+14:00"])
def test_a_number_is_no_moment_of_1970(tmp_path: Path, moment: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"orders\.yaml:\d+: restore\.time_window_end: "):
        ending_at(tmp_path, moment)


def test_without_a_moment_there_is_nothing_to_restore_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no moment is given"):
        as_of(ending_at(tmp_path, "null"), "", "timestamp")
