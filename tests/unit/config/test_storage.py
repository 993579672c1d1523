"""The ``storage`` section and the location that is made of it."""

from __future__ import annotations

from dataclasses import asdict

from streams_recovery.config.storage import Storage

_CREDENTIALS = {"connection", "seal"}


def test_a_location_has_every_key_but_the_way_to_the_credentials() -> None:
    section = Storage(
        backend="s3",
        bucket="b",
        prefix="orders",
        region="eu-west-1",
        endpoint="http://127.0.0.1:9000",
        path_style=True,
        allow_http=True,
        sse="aws:kms",
        kms_key_id="k",
    )
    assert asdict(section.location) == {name: value for name, value in section if name not in _CREDENTIALS}
