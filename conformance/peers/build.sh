#!/usr/bin/env bash
# Builds a peer (a program that nobody here wrote) from its Go module and prints the path of the binary.
#
#   conformance/peers/build.sh govc      -> ~/.cache/vsphere-lab/peers/govc-0.55.1-<hash>/govc
#
# Steps go to stderr, the path to stdout. What is built once stays in the cache, outside the tree; the key is
# the version of the module's first requirement and a hash of the module's files.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vsphere-lab/peers

say() { printf 'peers: %s\n' "$*" >&2; }
die() { say "$1"; say "remedy: $2"; exit 1; }
peers() { (cd "$here" && printf '%s\n' */go.mod | sed 's,/go.mod,,' | paste -sd' '); }

[ $# -eq 1 ] || { say "usage: build.sh NAME, where NAME is one of: $(peers)"; exit 2; }
name=$1
[ -f "$here/$name/go.mod" ] || die "no peer is called '$name'" "one of: $(peers)"

cd "$here/$name"
version=$(sed -nE 's/^(require )?[[:space:]]*[a-z][^ ]*\.[^ ]+ v([^ ]+).*/\2/p' go.mod | head -n 1)
hash=$(cat go.mod go.sum ./*.go | sha256sum | cut -c1-12)
dir=$cache/$name-$version-$hash
if [ -x "$dir/$name" ]; then
  say "$name $version: in the cache"
  printf '%s\n' "$dir/$name"
  exit 0
fi

wanted=$(sed -nE 's/^go ([0-9]+\.[0-9]+).*/\1/p' go.mod)
command -v go >/dev/null || die "building $name needs Go $wanted or newer, and there is no go in PATH" \
  "install it from https://go.dev/dl/ (or your distribution's package, if it is recent enough)"
have=$(go env GOVERSION | sed -E 's/^go([0-9]+\.[0-9]+).*/\1/')
[ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ] ||
  [ "$(go env GOTOOLCHAIN)" != local ] ||
  die "building $name needs Go $wanted or newer, this is $have" "install a newer one from https://go.dev/dl/"

mkdir -p "$dir"
scratch=$(mktemp -d "$dir/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
say "$name $version: building (a minute or two when nothing is cached)"
started=$SECONDS
go build -mod=readonly -trimpath -ldflags '-s -w' -o "$scratch/$name" . ||
  die "$name did not build" "read the lines above; without a network, set GOPROXY to a mirror that has the modules of $name/go.mod"
mv "$scratch/$name" "$dir/$name"
say "$name $version: built in $((SECONDS - started)) s"
printf '%s\n' "$dir/$name"
