"""Prints a .env file with fresh secrets, for which .env.example says what each is.

    (umask 077; set -C; python docker/make_env.py > .env)

Standard library only. Keep what it prints: another key makes what the old one encrypted unreadable, and what the old one signed forged.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import sys

# Edwards25519 (RFC 8032, section 5.1): the prime, the constant of the curve, and the base point by its coordinates.
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)


def _added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    (a, b), (c, d) = one, other
    both = _D * a * b * c * d
    return (a * d + b * c) * pow(1 + both, -1, _P) % _P, (b * d + a * c) * pow(1 - both, -1, _P) % _P


def public_key(private: bytes) -> str:
    """The public key of the 32 bytes of an Ed25519 private key, as storage.seal.public_keys takes it."""
    wanted = bytearray(hashlib.sha512(private).digest()[:32])
    wanted[0] &= 248
    wanted[31] = wanted[31] & 127 | 64
    found, power = (0, 1), _BASE
    for bit in range(255):
        if wanted[bit // 8] >> bit % 8 & 1:
            found = _added(found, power)
        power = _added(power, power)
    return "ed25519:" + base64.b64encode((found[1] | (found[0] & 1) << 255).to_bytes(32, "little")).decode()


def variables() -> dict[str, str]:
    """Every variable of .env.example. No quotes, blanks or $, because some end up in URLs and in JSON."""
    private = secrets.token_bytes(32)
    return {
        "POSTGRES_PASSWORD": secrets.token_urlsafe(24),
        "AIRFLOW_FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW_JWT_SECRET": secrets.token_urlsafe(64),
        "AIRFLOW_API_SECRET_KEY": secrets.token_urlsafe(48),
        "AIRFLOW_ADMIN_PASSWORD": secrets.token_urlsafe(12),
        "S3_ROOT_ACCESS_KEY": secrets.token_hex(10),
        "S3_ROOT_SECRET_KEY": secrets.token_urlsafe(30),
        "S3_ACCESS_KEY": secrets.token_hex(10),
        "S3_SECRET_KEY": secrets.token_urlsafe(30),
        "S3_READER_ACCESS_KEY": secrets.token_hex(10),
        "S3_READER_SECRET_KEY": secrets.token_urlsafe(30),
        "SEAL_PRIVATE_KEY": base64.b64encode(private).decode(),
        "SEAL_PUBLIC_KEY": public_key(private),
        "SPARK_RPC_SECRET": secrets.token_hex(32),
        "ORDER_PROCESSOR_TOKEN": secrets.token_hex(32),
    }


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}={value}\n" for name, value in variables().items())
