#!/usr/bin/env bash
# Prints the path of mdBook; installs it first if neither PATH nor the cache has this version.
#
#   docs/mdbook.sh      -> ~/.cache/vsphere-lab/mdbook-0.5.4/bin/mdbook
#
# Builds without the search index, the server and optimization, which this book does not need; that takes a minute of two cores instead of three.
set -euo pipefail
version=0.5.4
dir=${XDG_CACHE_HOME:-$HOME/.cache}/vsphere-lab/mdbook-$version

if [ "$(mdbook --version 2>/dev/null)" = "mdbook v$version" ]; then
  command -v mdbook
  exit 0
fi
if [ ! -x "$dir/bin/mdbook" ]; then
  mkdir -p "$dir"
  scratch=$(mktemp -d "$dir/build.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  echo "installing mdbook $version" >&2
  # Outside the tree, whose settings of cargo do not apply to mdBook.
  (cd "$scratch" && CARGO_TARGET_DIR=$scratch CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0 \
    cargo install mdbook --version "$version" --locked --no-default-features --debug --quiet --root "$scratch/root") >&2
  mkdir -p "$dir/bin"
  mv "$scratch/root/bin/mdbook" "$dir/bin/mdbook"
fi
printf '%s\n' "$dir/bin/mdbook"
