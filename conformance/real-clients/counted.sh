# Sourced by stories that count what held: `ok` runs a command and says how it went, `verdict` ends with it. Needs $dir, a folder of the
# story's own, where the last command's output is.
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
