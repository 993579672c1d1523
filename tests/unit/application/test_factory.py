"""Each kind of the ``runs`` section has its port."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streams_recovery.application.factory import PORTS, open_application
from streams_recovery.config.runs import KINDS
from streams_recovery.core.errors import ConfigInvalid


def test_each_kind_has_its_port() -> None:
    assert set(PORTS) == set(KINDS)


def test_a_kind_without_a_port_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match=r"'other' is not known.*process or command or kubernetes"):
        open_application(SimpleNamespace(kind="other", chosen=None), "app")
