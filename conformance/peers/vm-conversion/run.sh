#!/usr/bin/env bash
# Converts objects of the VM Operator's kinds with the VM Operator's own code, and writes the results as fixtures.
#
#   conformance/peers/vm-conversion/run.sh VM-OPERATOR [DIR]
#
# VM-OPERATOR is a checkout of github.com/vmware-tanzu/vm-operator, whose module `api` is not published separately.
# The script writes the files to DIR; by default it replaces the fixtures that the tests of sim-world read.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] && [ -d "$1/api" ] || { printf 'usage: run.sh VM-OPERATOR [DIR]\n' >&2; exit 2; }
api=$(cd "$1/api" && pwd)
out=${2:-$here/../../../sim/world/tests/vm-conversion}
mkdir -p "$out"
out=$(cd "$out" && pwd)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$here"/*.go "$here"/go.mod "$scratch"
cd "$scratch"
go mod edit -replace "github.com/vmware-tanzu/vm-operator/api=$api"
GOFLAGS=-mod=mod go run . "$out"
