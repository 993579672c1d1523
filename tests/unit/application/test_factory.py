"""Each kind of the ``runs`` section has its port."""

from __future__ import annotations

from typing import get_args

import pytest

from streams_recovery.application.factory import open_section
from streams_recovery.config.runs import KINDS, Runs
from streams_recovery.core.application_kind import ApplicationKind


def test_each_kind_has_its_port() -> None:
    sections = {section for kind in KINDS for section in get_args(Runs.model_fields[kind].annotation) if section is not type(None)}
    assert len(sections) == len(KINDS)
    assert set(open_section.registry) == {object, *sections}


def test_a_section_without_a_port_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="object has no port"):
        open_section(object(), "app", ApplicationKind.KAFKA_STREAMS)
