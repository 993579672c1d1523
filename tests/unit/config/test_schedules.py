"""Many applications do not start at one minute, and each always starts at the same one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from croniter import croniter

from streams_recovery.config.loader import load
from streams_recovery.config.schedules import plain
from tests.support.examples.configurations import APPLICATION, DRILL, MINIMAL, refused, written


def test_each_application_has_a_minute_of_its_own(tmp_path: Path) -> None:
    for name in ("orders", "payments"):
        config = load(written(tmp_path, APPLICATION + DRILL, f"{name}.yaml"), {})
        assert config.drill is not None
        found = {
            "backup": config.backup.schedule,
            "retention": config.retention.schedule,
            "check": config.check.schedule,
            "drill": config.drill.schedule,
        }
        default = {"backup": "H * * * *", "retention": "H 2 * * *", "check": "H 3 * * 0", "drill": "H 4 * * 6"}
        assert found == {section: plain(schedule, name, section) for section, schedule in default.items()}
        assert all(schedule is not None and croniter.is_valid(schedule) for schedule in found.values())
        assert (config.compact.schedule, config.run.schedule) == (None, None)


def test_fifty_applications_are_spread_over_the_hour_and_stay_where_they_are() -> None:
    def starts() -> list[str]:
        return [plain("H * * * *", f"application-{number}", "backup") for number in range(50)]

    assert starts() == starts()
    assert max(Counter(starts()).values()) <= 5
    assert len(set(starts())) > 25


def test_what_is_written_without_h_stays_as_it_is_written() -> None:
    for schedule in ("0 * * * *", "*/15 2-4 * * mon", "17 3 1,15 * *"):
        assert plain(schedule, "orders", "backup") == schedule
    found = plain("H H(1-4) * * mon", "orders", "backup").split()
    assert (found[2:], int(found[1]) in range(1, 5)) == (["*", "*", "mon"], True)


def test_one_application_does_everything_at_other_minutes() -> None:
    sections = ("backup", "retention", "check", "compact", "drill", "run")
    assert len({plain("H * * * *", "orders", section) for section in sections}) > 1


@pytest.mark.parametrize("schedule", ["R * * * *", "0 R(1-4) * * *", "H(0-70) * * * *", "HH * * * *"])
def test_a_schedule_that_is_another_one_each_time_is_refused(tmp_path: Path, schedule: str) -> None:
    text = MINIMAL.replace("topics:", f'check: {{schedule: "{schedule}"}}\ntopics:')
    assert "check.schedule: is not a cron expression" in refused(tmp_path, text)


def test_the_intervals_of_a_backfill_begin_where_it_is_written(tmp_path: Path) -> None:
    text = MINIMAL.replace("topics:", 'reprocess: {application_id: again, topic_map: {}, schedule: "H 0 * * *"}\ntopics:')
    assert "without H" in refused(tmp_path, text)


def test_the_look_of_the_monitor_has_a_minute_of_its_own_too(tmp_path: Path) -> None:
    text = MINIMAL.replace("topics:", 'monitor: {schedule: "H * * * *"}\ntopics:')
    found = load(written(tmp_path, text, "orders.yaml"), {}).monitor.schedule
    assert found == plain("H * * * *", "orders", "monitor")
    assert found is not None
    assert "H" not in found
