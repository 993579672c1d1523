"""The monitor section: defaults that follow the schedule, lengths of time as numbers, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams_recovery.config.loader import load
from streams_recovery.config.monitor import Monitor, longest_pause
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.status.limits import Limits
from tests.support.examples.configurations import MINIMAL, refused, written


def monitor(tmp_path: Path, section: str = "{}") -> tuple[Limits, object]:
    config = load(written(tmp_path, MINIMAL + f"monitor: {section}\n"), {})
    return config.monitor.limits_for(config.backup.schedule), config.monitor


def test_without_a_section_there_are_limits_and_no_objectives(tmp_path: Path) -> None:
    limits, _ = monitor(tmp_path)
    assert (limits.newest_age, limits.recovery_time, limits.late_after, limits.docs) == (None, None, 7200, "docs")
    assert (limits.retention_margin, limits.changelog_bytes, limits.disk_full_within, limits.transaction_age) == (
        21_600,
        None,
        172_800,
        900,
    )


def test_objectives_and_limits_are_seconds(tmp_path: Path) -> None:
    limits, _ = monitor(
        tmp_path,
        "{objectives: {newest_age: PT2H, recovery_time: PT30M}, limits: {retention_margin: PT1H}, docs_url: https://docs.example.com}",
    )
    assert (limits.newest_age, limits.recovery_time, limits.retention_margin, limits.docs) == (7200, 1800, 3600, "https://docs.example.com")


@pytest.mark.parametrize(("text", "seconds"), [("PT1H30M", 5400), ("P1DT5S", 86_405), ("PT0S", 0)])
def test_limits_that_are_written_out_are_read_as_they_were(tmp_path: Path, text: str, seconds: int) -> None:
    read = load(written(tmp_path, MINIMAL + f"monitor: {{limits: {{retention_margin: {text}}}}}\n"), {}).monitor
    assert read.limits.retention_margin == seconds
    plain = json.loads(read.model_dump_json())
    assert plain["limits"]["retention_margin"] == text
    assert Monitor.model_validate(plain) == read


def test_alerts_have_a_policy(tmp_path: Path) -> None:
    config = load(written(tmp_path, MINIMAL + "monitor: {alerts: {severity: critical, reminder: P1D}}\n"), {})
    assert (config.monitor.policy.severity, config.monitor.policy.reminder) == (Severity.CRITICAL, 86_400)
    assert load(written(tmp_path, MINIMAL), {}).monitor.policy.reminder is None


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{objectives: {newest_age: 2 hours}}", "monitor.objectives.newest_age"),
        ("{objectives: {recovery_time: PT0S}}", "objectives.recovery_time is PT0S; an objective is longer than nothing"),
        ("{limits: {disk_free: 1.5}}", "monitor.limits.disk_free"),
        ("{limits: {lag: 5}}", "unknown key monitor.limits.lag"),
        ("{alerts: {severity: loud}}", "monitor.alerts.severity"),
        ("{alerts: {reminder: daily}}", "monitor.alerts.reminder"),
        ("{notify: [{notifier: Smtp}]}", "is not a class with its module"),
        ('{notify: [{notifier: "os.system; x"}]}', "is not a class with its module"),
        ("{ping_url: ftp://example.com}", "not an http or https address"),
        ("{ping_url: http://example.com/ping}", "plain http to another machine"),
        ("{ping_url: https://user:canary@example.com}", "must not carry a user name"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, section: str, said: str) -> None:
    message = refused(tmp_path, MINIMAL + f"monitor: {section}\n")
    assert said in message
    assert "canary" not in message


HOUR, DAY = 3_600, 86_400


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("0 * * * *", HOUR),
        ("*/5 * * * *", 300),
        ("0 6,18 * * *", 12 * HOUR),
        ("0 8,9 * * *", 23 * HOUR),
        ("0 4 * * 6", 7 * DAY),
        ("0 9 * * 1-5", 3 * DAY),
        ("0 8-17 * * 1-5", 63 * HOUR),
        ("*/5 8-17 * * 1-5", 62 * HOUR + 300),
        ("0 0 1 * *", 31 * DAY),
        ("0 0 1 6 *", 366 * DAY),
        (None, None),
    ],
)
def test_the_longest_time_between_two_firings_counts_also_over_a_weekend(schedule: str | None, seconds: int | None) -> None:
    assert longest_pause(schedule) == seconds
