"""Creates the repository's bucket, and the users that work in it: one who may read, write and list there, and neither delete nor anything else, and one
who may only read and list.

Safe to run again, also with another secret. Waits for nothing: the server is healthy before this starts.
"""

from __future__ import annotations

import hashlib
import json
import os
from http import HTTPStatus
from typing import Any
from xml.sax.saxutils import escape

import boto3
import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

_MINE_ALREADY = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")
_ON_BUCKET = ("s3:ListBucket",)
# Savepoints and restores delete nothing. Expiry does: add s3:DeleteObject unless `retention.apply` is false.
_ON_OBJECTS = ("s3:GetObject", "s3:PutObject")
_TO_READ = ("s3:GetObject",)


def main() -> None:
    """Idempotent."""
    bucket, user, reader = (os.environ[name] for name in ("STREAMS_RECOVERY_BUCKET", "S3_ACCESS_KEY", "S3_READER_ACCESS_KEY"))
    client = boto3.client(
        "s3",
        endpoint_url=os.environ["STREAMS_RECOVERY_S3_ENDPOINT"],
        region_name=os.environ["STREAMS_RECOVERY_REGION"],
        aws_access_key_id=os.environ["S3_ROOT_ACCESS_KEY"],
        aws_secret_access_key=os.environ["S3_ROOT_SECRET_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )
    try:
        client.create_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _MINE_ALREADY:
            raise
    make_user(user, os.environ["S3_SECRET_KEY"])
    make_user(reader, os.environ["S3_READER_SECRET_KEY"])
    client.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy(bucket, user, reader)))


def policy(bucket: str, user: str, reader: str) -> dict[str, Any]:
    """What the users may do in the bucket."""
    resource = f"arn:aws:s3:::{bucket}"
    allowed = [
        ([user, reader], _ON_BUCKET, resource),
        ([user], _ON_OBJECTS, f"{resource}/*"),
        ([reader], _TO_READ, f"{resource}/*"),
    ]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"AWS": users}, "Action": list(actions), "Resource": [about]}
            for users, actions, about in allowed
        ],
    }


def make_user(access_key: str, secret_key: str) -> None:
    """A user of the server (VersityGW) with no right of its own. One that exists gets this secret."""
    told = f"<Access>{escape(access_key)}</Access><Secret>{escape(secret_key)}</Secret><Role>user</Role>"
    made = _administer("create-user", f"<Account>{told}</Account>")
    if made.status_code == HTTPStatus.CONFLICT:
        # Not changed in place: behind two changes the server (1.8.0) may go on with the old secret of one of the users.
        _administer(f"delete-user?access={access_key}", "").raise_for_status()
        made = _administer("create-user", f"<Account>{told}</Account>")
    made.raise_for_status()


def _administer(path: str, body: str) -> httpx.Response:
    # The server's own interface for users, signed as requests to S3 are.
    keys = Credentials(os.environ["S3_ROOT_ACCESS_KEY"], os.environ["S3_ROOT_SECRET_KEY"])
    content = body.encode()
    request = AWSRequest("PATCH", f"{os.environ['STREAMS_RECOVERY_S3_ENDPOINT']}/{path}", data=content)
    request.headers["X-Amz-Content-Sha256"] = hashlib.sha256(content).hexdigest()
    SigV4Auth(keys, "s3", os.environ["STREAMS_RECOVERY_REGION"]).add_auth(request)
    return httpx.patch(request.url, content=content, headers=dict(request.headers), timeout=30)


if __name__ == "__main__":
    main()
