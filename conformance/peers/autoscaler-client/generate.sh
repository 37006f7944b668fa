#!/usr/bin/env bash
# Generates the Go code of the protocol from the definitions in `protocol`, or compares the committed code with them.
#
#   conformance/peers/autoscaler-client/generate.sh [--check]
#
# Needs Go, python3 with venv, and a network or caches that have the modules and the package. protoc comes from the Python package
# grpcio-tools. protoc-gen-go has the version of the module google.golang.org/protobuf that the generation uses. Ends with 77 if a tool cannot
# be installed.
set -euo pipefail

GRPCIO_TOOLS=1.76.0
PROTOC_GEN_GO_GRPC=v1.5.1

cd "$(dirname "${BASH_SOURCE[0]}")"
[ $# -eq 0 ] || [ "$*" = --check ] || { echo "usage: generate.sh [--check]" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

skip() { echo "skipped: $1 is missing; how to get it: $2"; exit 77; } # TOOL HOW
python3 -m venv "$scratch/venv" || skip "the Python module venv" "apt-get install python3-venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check "grpcio-tools==$GRPCIO_TOOLS" ||
  skip "protoc" "a network or an index of Python packages (PIP_INDEX_URL) with grpcio-tools $GRPCIO_TOOLS"
GOBIN=$scratch go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$PROTOC_GEN_GO_GRPC" ||
  skip "protoc-gen-go-grpc" "a network or a Go proxy (GOPROXY) with its version $PROTOC_GEN_GO_GRPC"

modfile() { if [ "$1" = g3 ]; then echo go.mod; else echo "$1.mod"; fi; } # GENERATION
generate() { # GENERATION FILE…: writes the Go code of these definitions to $scratch/GENERATION
  local generation=$1 mod module out=$scratch/$1
  shift
  mod=$(modfile "$generation")
  mkdir -p "$out/k8s.io"
  for module in api apimachinery; do
    go mod download -modfile="$mod" "k8s.io/$module"
    ln -s "$(go list -modfile="$mod" -m -f '{{.Dir}}' "k8s.io/$module")" "$out/k8s.io/$module"
  done
  go build -modfile="$mod" -o "$out/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
  "$scratch/venv/bin/python" -m grpc_tools.protoc --proto_path=protocol --proto_path="protocol/$generation" --proto_path="$out" \
    --plugin="$out/protoc-gen-go" --go_out="$out" --go_opt=paths=source_relative \
    --plugin="$scratch/protoc-gen-go-grpc" --go-grpc_out="$out" --go-grpc_opt=paths=source_relative "$@"
}

# The oldest plugin writes the files that all generations share, because newer versions of its library accept its code.
generate g1 common.proto service.proto generation.proto
generate g2 generation.proto
generate g3 generation.proto
mkdir "$scratch/protocol"
cp "$scratch/g1/common.pb.go" "$scratch/g1/service.pb.go" "$scratch/g1/service_grpc.pb.go" "$scratch/protocol"
for generation in g1 g2 g3; do
  tag=$generation
  [ "$tag" != g3 ] || tag='!g1 && !g2'
  { printf '//go:build %s\n\n' "$tag"; cat "$scratch/$generation/generation.pb.go"; } >"$scratch/protocol/$generation.pb.go"
done

if [ "${1:-}" = --check ]; then
  diff -r -x '*.proto' -x g1 -x g2 -x g3 protocol "$scratch/protocol" ||
    { echo "the generated code differs from its definitions; remedy: run conformance/peers/autoscaler-client/generate.sh and commit" >&2; exit 1; }
  echo "the generated code is that of its definitions"
else
  rm -f protocol/*.pb.go
  cp "$scratch"/protocol/*.pb.go protocol
fi
