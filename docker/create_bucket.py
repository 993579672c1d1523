"""Creates the repository's bucket when it is not there yet. Waits for nothing: the server is healthy before this starts."""

from __future__ import annotations

import os

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

_MINE_ALREADY = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")


def main() -> None:
    """Idempotent."""
    client = boto3.client(
        "s3",
        endpoint_url=os.environ["STREAMS_RECOVERY_S3_ENDPOINT"],
        region_name=os.environ["STREAMS_RECOVERY_REGION"],
        aws_access_key_id=os.environ["S3_ACCESS_KEY"],
        aws_secret_access_key=os.environ["S3_SECRET_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )
    try:
        client.create_bucket(Bucket=os.environ["STREAMS_RECOVERY_BUCKET"])
    except ClientError as error:
        if error.response["Error"]["Code"] not in _MINE_ALREADY:
            raise


if __name__ == "__main__":
    main()
