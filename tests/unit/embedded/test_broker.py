"""Small things that go wrong once in sixty-four starts."""

from __future__ import annotations

import base64

from embedded.broker import _cluster_id


def test_a_cluster_id_is_never_read_as_an_option() -> None:
    ids = [_cluster_id() for _ in range(2_000)]
    assert all(found[0].isalpha() for found in ids)
    assert {len(base64.urlsafe_b64decode(found + "==")) for found in ids} == {16}
    assert len(set(ids)) == len(ids)
