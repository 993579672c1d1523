"""What commands and DAGs are for, by what a person is about to do."""

from __future__ import annotations

import enum


class Panel(enum.StrEnum):
    """A part of the list of commands, and a tag of DAGs."""

    FIRST = "First steps"
    EVERY_DAY = "Every day"
    WAYS_BACK = "Ways back"
    TRYING = "Trying things"
    LOOKING = "Looking"
    UPKEEP = "Upkeep"

    @property
    def tag(self) -> str:
        """The tag of its DAGs."""
        return self.lower()
