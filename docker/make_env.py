"""Prints a .env file with fresh secrets, for which .env.example says what each is.

    python docker/make_env.py > .env

Standard library only. Keep what it prints: another key makes what the old one encrypted unreadable.
"""

from __future__ import annotations

import base64
import secrets
import sys


def variables() -> dict[str, str]:
    """Every variable of .env.example. Letters, digits, - and _ only, because some end up in URLs and in JSON."""
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
        "SPARK_RPC_SECRET": secrets.token_hex(32),
        "ORDER_PROCESSOR_TOKEN": secrets.token_hex(32),
    }


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}={value}\n" for name, value in variables().items())
