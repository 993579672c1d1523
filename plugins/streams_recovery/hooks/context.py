"""The parts that every Airflow component of ours needs: a configured application opened with Airflow's connections, and our errors as Airflow's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.config.loader import load_application, load_applications
from streams_recovery.core.errors import PermanentError, RecoveryError, of_machine, without_secret_causes
from streams_recovery.core.escaping import Markdown, visible
from streams_recovery.core.repository.mirror import Where
from streams_recovery.hooks.connections import AirflowConnections
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.second_place import open_at
from streams_recovery.operations.status.current import kept_current
from streams_recovery.workflows.step import Step

_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "critical", "exception"})


class Logged:
    """Comes before the class of Airflow in each of our components: what is logged is visible text, one line for each argument that is no Markdown."""

    @property
    def log(self) -> Any:
        return _VisibleLog(super().log)  # type: ignore[misc]


class _VisibleLog:
    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._log, name)
        if name not in _LEVELS:
            return found

        def logged(event: object, *arguments: object, **facts: object) -> Any:
            return found(event, *map(_shown, arguments), **facts)

        return logged


def _shown(argument: object) -> object:
    return argument if isinstance(argument, (int, float, Markdown, RecoveryError)) else visible(str(argument))


@contextmanager
def context_of(
    application_name: str, site: str | None = None, *, anew: bool = False, place: Where | None = None
) -> Iterator[RecoveryContext]:
    """The context of a configured application at ``site``, by default the site that it belongs to, with Airflow's connections. At its end the stored status has
    the changes. Raises what loading and connecting raise. ``anew`` is as in ``open_context``, ``place`` as in ``open_at``.
    """
    config = load_application(application_name)
    with (
        open_at(config, AirflowConnections(), place, applications=load_applications, site=site, anew=anew) as recovery,
        kept_current(recovery),
    ):
        yield recovery


@contextmanager
def airflow_errors(step: Step[Any] | None = None) -> Iterator[None]:
    """Fail at once on errors that would come again, those of this machine's disks too. All others pass unchanged, and those after which the ``step`` is tried
    again: Airflow retries them while the task has retries left.
    """
    try:
        try:
            yield
        except OSError as error:
            raise of_machine(error) or error from error.__cause__
    except RecoveryError as error:
        without_secret_causes(error)
        if not isinstance(error, PermanentError) or (step is not None and isinstance(error, step.tried_again)):
            raise
        raise AirflowFailException(str(error)) from error
