# Functions for scripts that count their checks; to be sourced. `ok` runs a command and prints if it succeeded, `verdict` prints the
# counts and fails if a check failed. Needs $dir, a folder of the script, into which `ok` writes the output of the command.
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
verdict() { # prints the counts; its exit code is that of the script
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
