# Functions that the lines of `commands` can use.

eventually() { # COMMAND…: repeats it until it succeeds; after half a minute ends the line with an error
  local end=$((SECONDS + 30))
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || { echo "not within 30 s: $*"; exit $trouble; }
    sleep 0.03
  done
}
trouble=99 # exit code of a line that could not carry out its steps
has() { [ "$(wc -l <"$1")" -ge "$2" ]; } # FILE N: succeeds if the file has at least N lines
told() { grep -q "\"Response\" verb=\"$2\" url=\"[^\"]*/namespaces/lab/" "$1"; } # FILE VERB: succeeds if the log in FILE shows an answer to VERB in the namespace

# FIRST LAST COMMAND CHANGE…: starts COMMAND, which watches, and waits until it has printed FIRST lines. Then makes the changes one
# after the other, waits until COMMAND has printed LAST lines in total, and ends it. Prints the output of COMMAND.
watching() {
  local first=$1 last=$2 command=$3 change pid
  shift 3
  : >watch.out >watch.err # empties the files of an earlier line
  # If FIRST is 0, waits for the answer to the first GET of COMMAND instead of its output.
  [ "$first" -gt 0 ] || command="$command -v=6"
  bash -c "exec $command" >watch.out 2>watch.err &
  pid=$!
  if [ "$first" -gt 0 ]; then eventually has watch.out "$first"; else eventually told watch.err GET; fi
  for change; do bash -c "$change" >/dev/null || { echo "failed: $change"; exit $trouble; }; done
  eventually has watch.out "$last"
  kill -TERM "$pid"
  wait "$pid"
  cat watch.out
  grep -v '^I[0-9]' watch.err >&2
  return 0
}

# COMMAND CHANGE: starts COMMAND, which must log with -v=6, and makes the change after the answer to its first GET (to its first
# DELETE if COMMAND is `kubectl delete`). Prints the output of COMMAND and returns its exit code.
meanwhile() {
  local pid code verb=GET
  [[ $1 != kubectl\ delete* ]] || verb=DELETE
  : >watch.err # empties the file of an earlier line
  bash -c "exec $1" >watch.out 2>watch.err &
  pid=$!
  eventually told watch.err "$verb"
  bash -c "$2" >/dev/null || { echo "failed: $2"; exit $trouble; }
  wait "$pid"
  code=$?
  cat watch.out
  grep -v '^I[0-9]' watch.err >&2
  return $code
}

by_name() { # prints the resources of the discovery document on stdin, sorted by name, because their order is undefined
  python3 -c 'import json, sys; [print(json.dumps(it, sort_keys=True)) for it in sorted(json.load(sys.stdin)["resources"], key=lambda it: it["name"])]'
}
in_order() { python3 -m json.tool --sort-keys; } # prints the JSON on stdin with sorted fields, because their order has no meaning
