"""What Airflow shows of a configuration that cannot be used."""

from __future__ import annotations

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.hooks.context import Logged
from streams_recovery.operators.access import UnusableConfiguration, unusable_configurations


class CheckConfigurationOperator(Logged, BaseOperator):
    """Read the configurations again. Fails with what is wrong, as long as something is. ``application_name`` is the stem of the file."""

    def __init__(self, *, application_name: str, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.application_name = application_name

    def execute(self, context: Context) -> None:
        found = unusable_configurations().get(self.application_name)
        if found is not None:
            raise AirflowFailException(str(found.error))
        self.log.info("The configuration of %s can be used; its DAGs come back with the next parsing", self.application_name)


def explanation(name: str, found: UnusableConfiguration) -> Markdown:
    """The page of its DAG."""
    effect = "no DAG restores this application" if found.partly else "this application has no other DAG"
    rest = "Savepoints of it are taken" if found.partly else "No savepoint of it is taken"
    return joined(
        [
            md("The configuration of {} cannot be used, so {}. {}.\n", code(name), effect, rest),
            *(md("- {}", line) for line in found.error.reason.splitlines()),
            md("\nNext: {}.\n", found.error.next_step),
            md(
                "This DAG goes away when the configuration can be used again. Until then, where only another file contradicts this one, the commands of "
                "`streams-recovery` work for it.\n"
            ),
        ]
    )
