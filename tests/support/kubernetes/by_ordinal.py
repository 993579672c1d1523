"""Starts a program with variables of its own for each pod, which a workload has no way to give: PER_INSTANCE has a JSON list, POD_NAME ends with a number."""

import json
import os
import sys

each = json.loads(os.environ.pop("PER_INSTANCE", "[]"))
number = int(os.environ["POD_NAME"].rpartition("-")[2]) if each else 0
if number < len(each):
    os.environ.update(each[number])
os.execv(sys.argv[1], sys.argv[1:])
