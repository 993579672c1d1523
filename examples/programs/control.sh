#!/usr/bin/env bash
# The programs of `runs.kind: command`, for a unit of systemd (UNIT) or for one process (PROGRAM, words with spaces between): the same as control.py.
set -euo pipefail
mkdir -p "$RECORDS" && cd "$RECORDS"
state="$STATE/$APPLICATION_ID" UNIT="${UNIT:-}"
unit() { systemctl show "$UNIT" --property "$1" --value; }
text() { cat "$1" 2>/dev/null || true; }
run() { if [ "$UNIT" ]; then unit InvocationID; else text run; fi; }
# Until nothing of it is alive: systemd knows that of a unit, and all that a process starts has inherited its lock.
up() { if [ "$UNIT" ]; then [[ ! $(unit ActiveState) =~ ^(inactive|failed)$ ]]; else ! flock --shared --nonblock lock true; fi; }
signal() { if up; then kill "-$1" -- "-$(text group)" || true; fi; }
status() {
  local asked how clean this=false more=""
  read -r asked how clean < <(text asked; echo)
  # A unit that ended well is forgotten by systemd after a while: then the note of the stop speaks for it.
  if [ "$asked" ] && { [ "$(run)" = "$asked" ] || [ "$UNIT" -a -z "$(run)" ]; }; then this=true; fi
  if [ "$(run)$asked" ]; then more=", \"stopped_here\": $this"; fi
  if up; then how=$(text group) state_now=running clean=null more=""; else state_now=gone; [ "$this$clean" = trueclean ] && clean=true || clean=false; fi
  printf '[{"name": "only", "state": "%s", "streams_state": null, "silent": true, "closed_cleanly": %s, "detail": "%s %s"%s}]' \
    "$state_now" "$clean" "${UNIT:-process group}" "$how" "$more"
}
attend() {
  trap : TERM # it outlives the SIGTERM that the whole group gets, and the program does not inherit this
  echo $$ >group
  read -ra words <<<"$PROGRAM"
  "${words[@]}" &
  while wait $! && code=0 || code=$?; kill -0 $! 2>/dev/null; do :; done
  echo "$(run) $code" >ended
}
case "$1" in
  status) status ;;
  start)
    if [ "$UNIT" ]; then systemctl start --no-block "$UNIT"; exit; fi
    exec 9>lock
    flock --timeout 2 9 || exit 0
    rm -f group && echo "$$-$(date +%s%N)" >run
    setsid "$BASH" "$0" attend </dev/null >>log 2>&1 & ;;
  attend) attend ;;
  stop)
    if up && [ "$UNIT" ]; then
      this=$(run) && echo "$this asked not-clean" >asked
      systemctl stop "$UNIT"
      result=$(unit Result) && echo "$this $result $([ "$result" = success ] && echo clean)" >asked
    elif up; then
      echo "$(run) asked not-clean" >asked && until [ -s group ]; do sleep 0.1; done
      signal TERM
      for ((left = ${STOP_TIMEOUT_SECONDS%.*} * 5; left > 0; left--)); do up || break; sleep 0.2; done
      signal KILL && while up; do sleep 0.2; done
      code=$(text ended) && echo "$(run) ${code##* } $([[ $code =~ ^"$(run)"\ (0|143)$ ]] && echo clean)" >asked
    fi
    status ;;
  wipe)
    if up; then exit 3; fi
    if [ -e "$state" ]; then removed="\"$state\""; fi
    rm -rf -- "$state"
    printf '{"removed": [%s], "remaining": []}' "${removed:-}" ;;
  *) exit 2 ;;
esac
