# Functions that the lines of `commands` may use besides bash and kubectl.

eventually() { # COMMAND…: again and again until it succeeds, half a minute at most; else it is the end of the line
  local end=$((SECONDS + 30))
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || { echo "not within 30 s: $*"; exit $trouble; }
    sleep 0.03
  done
}
trouble=99 # what a line ends with that could not do what it is for
has() { [ "$(wc -l <"$1")" -ge "$2" ]; } # FILE LINES
told() { grep -q "\"Response\" verb=\"$2\" url=\"[^\"]*/namespaces/lab/" "$1"; } # FILE VERB: about something in the namespace

# FIRST LAST COMMAND CHANGE…: runs COMMAND and waits until it has printed FIRST lines; makes the changes one after the other;
# waits until COMMAND has printed LAST lines and ends it. Prints the output of COMMAND.
watching() {
  local first=$1 last=$2 command=$3 change pid
  shift 3
  : >watch.out >watch.err # of the line before
  # With FIRST 0 waits for the answer to the first GET of COMMAND instead of a line.
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

# COMMAND CHANGE: runs COMMAND, which logs at level 6; makes the change after the answer to its first GET (its first DELETE if
# COMMAND is `kubectl delete`). Returns the exit code of COMMAND.
meanwhile() {
  local pid code verb=GET
  [[ $1 != kubectl\ delete* ]] || verb=DELETE
  : >watch.err # of the line before
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

by_name() { # of a document of discovery: its resources, which come in any order
  python3 -c 'import json, sys; [print(json.dumps(it, sort_keys=True)) for it in sorted(json.load(sys.stdin)["resources"], key=lambda it: it["name"])]'
}
in_order() { python3 -m json.tool --sort-keys; } # the order of fields in JSON is nobody's business
