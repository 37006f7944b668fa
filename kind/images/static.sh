#!/usr/bin/env bash
# Builds sim and provider as they are shipped, and prints the folder that they are in: static, and without the features that
# only conformance enables. Both at once, so that what they share is built once.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
host=$(rustc -vV | sed -n 's/^host: //p')
cd "$root"
# What a cargo around this says of its own package would have this one build anew what is built.
unset ${!CARGO_PKG_@} ${!CARGO_MANIFEST_@} ${!CARGO_BIN_@} CARGO_CRATE_NAME
# With a target that is named the flag does not reach macros and build scripts, which cannot be static.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
  cargo build --release --locked -p sim -p provider --target "$host" >&2
printf '%s\n' "$target/$host/release"
