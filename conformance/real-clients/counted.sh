# Sourced by stories that count their checks: `ok` runs a command and prints its result, `verdict` prints the counts and ends the story.
# Needs $dir, a folder of the story's own, which gets the output of the last command.
passed=0 failed=0
ok() { # WHAT COMMAND…
  local what=$1
  shift
  if "$@" >"$dir/why" 2>&1; then
    passed=$((passed + 1)) && printf 'ok   %s\n' "$what"
  else
    failed=$((failed + 1)) && printf 'FAIL %s\n' "$what" && tail -n 20 "$dir/why" | sed 's/^/     | /'
  fi
}
verdict() { # the last line, and how the story ends
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
