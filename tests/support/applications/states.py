"""What the tests of this folder look at."""

from __future__ import annotations

from streams_recovery.application.port import InstanceState

GONE, RUNNING, UNKNOWN = InstanceState.GONE, InstanceState.RUNNING, InstanceState.UNKNOWN


def started(one):
    """The application, with both instances answering."""
    application = one.open()
    application.start()
    one.await_up()
    return application


def states(application):
    """The state of each instance."""
    return [status.state for status in application.status()]


def clean(report):
    """Whether each instance closed cleanly."""
    return [status.closed_cleanly for status in report.instances]
