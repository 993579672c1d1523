"""From the ``runs`` section to the application it describes. The module of a kind is loaded when an application of that kind is opened."""

from __future__ import annotations

from functools import singledispatch

from streams_recovery.application.port import StreamsApplication
from streams_recovery.config.runs import CommandRuns, Kind, KubernetesRuns, ProcessRuns, Runs
from streams_recovery.core.application_kind import ApplicationKind


def open_application(runs: Runs, application_id: str, kind: ApplicationKind = ApplicationKind.KAFKA_STREAMS) -> StreamsApplication:
    """The application as it is configured to run."""
    return open_section(runs.chosen, application_id, kind)


@singledispatch
def open_section(section: Kind, application_id: str, kind: ApplicationKind) -> StreamsApplication:  # noqa: ARG001 - those below use it
    """The port of a section of ``runs``. Each kind is registered below."""
    raise TypeError(f"{type(section).__name__} has no port, so {application_id} cannot be opened")


@open_section.register
def _process(section: ProcessRuns, application_id: str, kind: ApplicationKind) -> StreamsApplication:
    from streams_recovery.application.process import ProcessApplication  # noqa: PLC0415  # see the module

    return ProcessApplication(section, application_id, kind)


@open_section.register
def _command(section: CommandRuns, application_id: str, kind: ApplicationKind) -> StreamsApplication:  # noqa: ARG001 - its programs know
    from streams_recovery.application.command import CommandApplication  # noqa: PLC0415  # see the module

    return CommandApplication(section, application_id)


@open_section.register
def _kubernetes(section: KubernetesRuns, application_id: str, kind: ApplicationKind) -> StreamsApplication:  # noqa: ARG001 - Kafka Streams only
    from streams_recovery.application.kubernetes.application import KubernetesApplication  # noqa: PLC0415  # see the module

    return KubernetesApplication(section, application_id)
