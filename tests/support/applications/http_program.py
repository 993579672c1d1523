"""A program with the HTTP interface of a Kafka Streams application, for tests of whatever runs applications. It has no Kafka.

Its behaviour comes from its environment: PORT, HOST (127.0.0.1 if not set), STATE_DIR, APPLICATION_ID, STORE (JSON, what /state/totals answers, and each
key of it by itself; others are another instance's if ELSEWHERE is set),
HEALTH (state it reports), TOPOLOGY (what it describes itself as, if set),
COMMIT_INTERVAL_MS (which it reports if set), CLOSE (what /close answers, or "never"), ON_TERM (the exit status after SIGTERM, or "ignore"), TOKEN (what every
request has to carry), DEAF=1
(never really pauses), BUSY (how many queries it answers with 503 first), UNTIL (the pid of the test session: it ends with it, should that be killed before
it could clean up).
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

now = {"paused": False, "busy": int(os.environ.get("BUSY", "0"))}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if not self.known():
            self.answer(401, {"error": "no token"})
        elif self.path == "/health":
            interval = os.environ.get("COMMIT_INTERVAL_MS")
            told = {} if interval is None else {"commit_interval_ms": int(interval)}
            self.answer(200, {"state": os.environ.get("HEALTH", "RUNNING"), "paused": now["paused"], **told})
        elif self.path == "/topology" and "TOPOLOGY" in os.environ:
            self.answer(200, {"topology": os.environ["TOPOLOGY"]})
        elif self.path == "/environment":
            self.answer(200, dict(os.environ))
        elif self.path.startswith("/state/totals/"):
            self.of_key(unquote(self.path.removeprefix("/state/totals/")))
        elif self.path != "/state/totals":
            self.answer(404, {"error": "no such path"})
        elif now["busy"] > 0:
            now["busy"] -= 1
            self.answer(503, {"error": "rebalancing"})
        else:
            self.answer(200, json.loads(os.environ.get("STORE", "{}")))

    def of_key(self, key):
        known = json.loads(os.environ.get("STORE", "{}"))
        if now["busy"] > 0:
            now["busy"] -= 1
            self.answer(503, {"error": "rebalancing"})
        elif key in known:
            self.answer(200, {"found": True, "value": known[key]})
        else:
            self.answer(421 if os.environ.get("ELSEWHERE") else 404, {"found": False})

    def do_POST(self):
        if not self.known():
            self.answer(401, {"error": "no token"})
        elif self.path in ("/pause", "/resume"):
            now["paused"] = self.path == "/pause" and os.environ.get("DEAF") != "1"
            self.answer(200, {})
        elif self.path == "/close":
            if os.environ["CLOSE"] == "never":
                time.sleep(3600)
            self.answer(200, json.loads(os.environ["CLOSE"]))
        else:
            self.answer(404, {})

    def known(self):
        return "TOKEN" not in os.environ or self.headers.get("Authorization") == f"Bearer {os.environ['TOKEN']}"

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def on_term(_number, _frame):
    wanted = os.environ.get("ON_TERM", "143")
    if wanted != "ignore":
        os._exit(int(wanted))


def end_with(session):
    while True:
        try:
            os.kill(session, 0)
        except ProcessLookupError:
            os._exit(1)
        time.sleep(1)


def main():
    if "UNTIL" in os.environ:
        threading.Thread(target=end_with, args=[int(os.environ["UNTIL"])], daemon=True).start()
    # A JVM is killed by nothing it does not know either: its exit status after SIGTERM is 143.
    signal.signal(signal.SIGTERM, on_term)
    state = Path(os.environ["STATE_DIR"]) / os.environ["APPLICATION_ID"] / "0_0" / "rocksdb"
    state.mkdir(parents=True, exist_ok=True)
    (state / "CURRENT").write_text("something\n")
    # As a database does, for as long as it is open.
    now["lock"] = (state / "LOCK").open("w")
    server = ThreadingHTTPServer((os.environ.get("HOST", "127.0.0.1"), int(os.environ["PORT"])), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
