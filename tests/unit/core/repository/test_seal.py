"""Seals as bytes: what is joined is split again, and nothing else is a seal."""

from __future__ import annotations

import base64
import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.repository.seal import (
    MANIFEST_SEAL_BYTES,
    MOST_SEAL_BYTES,
    Seal,
    carries_seal,
    private_bytes,
    public_bytes,
    signed_message,
    split_seal,
    with_seal,
)

SIGNATURES = st.binary(min_size=64, max_size=64).map(lambda data: base64.b64encode(data).decode())
SEALS = st.builds(Seal, key_id=st.binary(min_size=8, max_size=8).map(bytes.hex), previous=st.none() | SIGNATURES, signature=SIGNATURES)
CONTENTS = st.binary(max_size=2000) | st.binary(max_size=2000).map(lambda data: zstandard.ZstdCompressor().compress(data))


@given(content=CONTENTS, seal=SEALS)
def test_what_is_joined_is_split_again(content, seal):
    stored = with_seal(content, seal)
    found = split_seal(stored)
    assert (found.content, found.seal) == (content, seal)
    assert 0 < len(stored) - len(content) <= MOST_SEAL_BYTES


@given(content=CONTENTS, seal=SEALS, data=st.data())
def test_a_cut_seal_is_none(content, seal, data):
    stored = with_seal(content, seal)
    cut = data.draw(st.integers(len(content), len(stored) - 1))
    assert split_seal(stored[:cut]).seal is None


def test_a_reader_without_this_software_passes_over_the_seal():
    seal = Seal(key_id="0" * 16, previous=None, signature="A" * 86 + "==")
    manifest = zstandard.ZstdCompressor().compress(b'{"a":1}')
    stored = with_seal(manifest, seal)
    assert zstandard.decompress(stored) == b'{"a":1}'
    assert len(stored) - len(manifest) == MANIFEST_SEAL_BYTES
    entry, line = with_seal(b'{"a":1}', seal).split(b"\n")
    assert json.loads(entry) == {"a": 1}
    assert json.loads(line) == {"key_id": seal.key_id, "previous": None, "seal": 1, "signature": seal.signature}


@given(st.tuples(st.text(), st.binary(), st.none() | SIGNATURES), st.tuples(st.text(), st.binary(), st.none() | SIGNATURES))
def test_no_two_records_are_signed_alike(one, other):
    # Keys have no line break: Layout checks every name.
    one, other = (one[0].replace("\n", ""), *one[1:]), (other[0].replace("\n", ""), *other[1:])
    assert (signed_message(*one) == signed_message(*other)) == (one == other)


@pytest.mark.parametrize(
    ("key", "sealed"),
    [
        ("orders/savepoints/x/manifest.json.zst", True),
        ("orders/work/run/plan.0001.json", True),
        ("orders/work/run/progress/result.0001/000001.json", False),
        ("orders/work/progress/plan.json", True),
        ("orders/restores/x/report.json", True),
        ("orders/restores/x/report.md", False),
        ("orders/restores/x/journal/000000000001.json", True),
        ("orders/segments/t/0/a.parquet", False),
        ("orders/ranges/t/a.zst", False),
        ("orders/tables/a/b/c/part-00000.parquet", False),
        ("orders/a-kind-that-is-new/000000000001.json", True),
    ],
)
def test_every_record_is_sealed_but_those_that_are_named_by_hash_and_those_that_nothing_goes_by(key, sealed):
    assert carries_seal(key) is sealed


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:AAAA", "ssh-ed25519 AAAA", "ed25519:" + "*" * 44])
def test_what_is_no_public_key_is_refused(text):
    with pytest.raises(ValueError, match="public key"):
        public_bytes(text)


def test_a_private_key_is_not_quoted_when_it_cannot_be_used():
    with pytest.raises(ValueError, match="private key is 32 bytes") as refused:
        private_bytes("c2VjcmV0")
    assert "c2VjcmV0" not in str(refused.value)
