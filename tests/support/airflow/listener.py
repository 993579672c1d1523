"""A notifier of Airflow that keeps what it is told, in the process of the test."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk import BaseNotifier


class Listener(BaseNotifier):
    """``message`` is a template."""

    template_fields = ("message",)
    heard: ClassVar[list[str]] = []
    out: ClassVar[bool] = False

    def __init__(self, message: str = "{{ alert.news }} {{ alert.cause }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message = message

    def notify(self, context: Any) -> None:  # noqa: ARG002
        """Keep it, or fail as a mail server does that is down."""
        if Listener.out:
            raise ConnectionError("the mail server does not answer")
        Listener.heard.append(self.message)
