"""What the tests of this folder look at."""

from __future__ import annotations

from streams_recovery.application.port import InstanceState

GONE, RUNNING, UNKNOWN = InstanceState.GONE, InstanceState.RUNNING, InstanceState.UNKNOWN


def started(one):
    application = one.open()
    application.start()
    one.await_up()
    return application


def states(application):
    return [status.state for status in application.status()]


def clean(report):
    return [status.closed_cleanly for status in report.instances]
