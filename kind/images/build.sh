#!/usr/bin/env bash
# Builds the images of sim and provider around static binaries, and prints their names. Pulls nothing.
#
#   kind/images/build.sh [sim | provider]...      -> vsphere-lab/sim:0.1.0, vsphere-lab/provider:0.1.0
#
# Builds both images by default. Prints its progress to stderr and the names to stdout, in the order of the arguments.
# IMAGE_TAG=TAG replaces the version as the tag, so that the new image does not replace one that is in use.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

say() { printf 'images: %s\n' "$*" >&2; }
die() { say "$1"; say "remedy: $2"; exit 1; }

docker info >/dev/null 2>&1 || die "no Docker engine answers" "start one: kind/engine.sh up"
[ $# -gt 0 ] || set -- sim provider
version=$(sed -nE 's/^version = "(.*)"/\1/p' "$root/Cargo.toml" | head -n 1)
tag=${IMAGE_TAG:-$version}
revision=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cd "$root"
for name in "$@"; do
  case $name in sim | provider) ;; *) die "unknown image '$name'" "write sim or provider, or no name for both" ;; esac
done
say "building static binaries"
built=$("$here/static.sh") || die "sim and provider did not build" "read the lines above"
for name in "$@"; do
  binary=$built/$name
  ! readelf -l "$binary" 2>/dev/null | grep -q INTERP || die "$binary needs a dynamic linker" "build with the gnu or musl target of Linux"
  mkdir "$scratch/$name"
  install -m 755 "$binary" "$scratch/$name/$name"
  strip "$scratch/$name/$name" 2>/dev/null || true
  # An image from scratch has no /tmp. A tmpfs that is mounted on this folder gets its mode. With --read-only and without a
  # tmpfs, sim writes no files there.
  mkdir "$scratch/$name/tmp"
  chmod 1777 "$scratch/$name/tmp"
  if [ "$name" = provider ]; then # adds upstream's path, for manifests that name the command
    mkdir "$scratch/$name/bin"
    ln -s ../provider "$scratch/$name/bin/vsphere-cloud-controller-manager"
  fi
  image=vsphere-lab/$name:$tag
  DOCKER_BUILDKIT=0 docker build -q -t "$image" -f "$here/$name.Dockerfile" \
    --label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.revision=$revision" \
    "$scratch/$name" >&2
  say "$image: $(docker image inspect -f '{{.Size}}' "$image") bytes"
  printf '%s\n' "$image"
done
