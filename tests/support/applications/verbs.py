"""The programs of a user who runs an application in a way of his own: one verb of the command port each. It keeps processes."""

import json
import os
import sys
from pathlib import Path

from streams_recovery.application.factory import open_application
from streams_recovery.application.port import NoKeyRoute
from streams_recovery.config.runs import Runs
from streams_recovery.core import codec
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.state.key_query import KeyQuestion, answer_fields


def main(runs_file, application_id, verb, *arguments):
    """What a verb answers."""
    runs = Runs.model_validate_json(Path(runs_file).read_text())
    application = open_application(runs, application_id)
    if verb == "status":
        return application.status()
    if verb == "stop":
        return application.stop(timeout=float(os.environ["STOP_TIMEOUT_SECONDS"])).instances
    if verb == "start":
        return application.start({name: value for name, value in os.environ.items() if name.startswith("OVERLAY_")})
    if verb == "wipe":
        return application.wipe_state()
    if verb == "query_keys":
        questions = [KeyQuestion(**one) for one in json.load(sys.stdin)]
        return [answer_fields(one) for one in application.query_keys(questions)]
    return getattr(application, verb)(*arguments)


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(codec.encode(main(*sys.argv[1:]))))
    except RecoveryError as error:
        sys.stderr.write(str(error))
        sys.exit(7 if error.exit_code == 7 else 5 if isinstance(error, NoKeyRoute) else 3)
