"""Vectors from a JVM: Kafka's own tests of ``Utils.murmur2``, and ``Utils`` asked for every length; the integration tests ask it again."""

from __future__ import annotations

import pytest

from streams_recovery.core.state.partitioner import default_partition, murmur2

VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
LONG = "ü€-key that is as long as it is cut: 0123456789".encode()
CUT = {15: (-1979290041, 1), 16: (-764574794, 5), 17: (930032192, 5), 18: (-1573512879, 1), 38: (1331423137, 2), 39: (-1098658010, 0)}


@pytest.mark.parametrize("key", VECTORS)
def test_the_hash_is_that_of_the_jvm(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key] % 2**32


@pytest.mark.parametrize("length", CUT)
def test_the_partition_is_that_of_the_jvm(length: int) -> None:
    digest, partition = CUT[length]
    assert (murmur2(LONG[:length]), default_partition(LONG[:length], 7)) == (digest % 2**32, partition)
