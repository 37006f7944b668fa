#!/usr/bin/env bash
# Runs the tests of the recipes for Go and Python against a container engine, and fails if they
# leave containers behind.
#
#   sim/testcontainers/recipes/run.sh [go | python]...     by default both; SIM_IMAGE names the image
#   sim/testcontainers/recipes/run.sh venv                 only creates the Python environment, and prints its interpreter
#
# Ryuk, the container with which testcontainers removes containers of killed tests, is off, because
# its image would have to be pulled. A killed test therefore leaves its container behind. The
# libraries use the engine on this machine, even if they detect that they run in a container.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export TESTCONTAINERS_RYUK_DISABLED=true
export TESTCONTAINERS_HOST_OVERRIDE=${TESTCONTAINERS_HOST_OVERRIDE:-127.0.0.1}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vsphere-lab

venv() {
  local dir
  dir=$cache/recipes-$(sha256sum <"$here/python/requirements.txt" | cut -c1-12)
  if [ ! -x "$dir/done" ]; then
    rm -rf "$dir"
    python3 -m venv "$dir" >&2 || { echo "cannot create a virtual environment: apt-get install python3-venv" >&2; return 1; }
    "$dir/bin/pip" install --quiet --disable-pip-version-check -r "$here/python/requirements.txt" >&2
    install -m 755 /dev/null "$dir/done"
  fi
  echo "$dir/bin/python"
}
left() {
  local found
  found=$(docker ps -aq --filter "label=io.vsphere-lab.testcontainers=$1")
  [ -z "$found" ] || { echo "the tests of recipe '$1' left these containers behind: $found" >&2; return 1; }
}
play_python() {
  local python
  python=$(venv)
  (cd "$here/python" && "$python" -B -m unittest -v)
}
play_go() { (cd "$here/go" && go vet ./... && go test -count=1 ./...); }

[ "${1:-}" != venv ] || { venv; exit; }
[ $# -gt 0 ] || set -- go python
for recipe in "$@"; do
  case $recipe in go | python) ;; *) echo "unknown recipe '$recipe': expected go, python, or nothing for both" >&2; exit 2 ;; esac
  echo "--- $recipe"
  "play_$recipe"
  left "$recipe"
done
