#!/bin/bash
# Healthy when the application answers /health with 200. Needs nothing but bash: the image may have no HTTP client.
exec 3<>"/dev/tcp/127.0.0.1/${HTTP_PORT:-18081}" || exit 1
printf 'GET /health HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n' "${HTTP_TOKEN:-}" >&3
read -r -t 5 _ status _ <&3
[ "$status" = 200 ]
