#!/usr/bin/env bash
# Builds sim and provider as they are shipped, and prints their folder. Both are static and lack the features that only
# conformance enables. One command builds both, so that shared crates are built once.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
host=$(rustc -vV | sed -n 's/^host: //p')
cd "$root"
# Drops the variables of an outer cargo, with which this cargo would rebuild crates that are already built.
unset ${!CARGO_PKG_@} ${!CARGO_MANIFEST_@} ${!CARGO_BIN_@} CARGO_CRATE_NAME
# With an explicit --target the flag does not reach macros and build scripts, which cannot be static.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
  cargo build --release --locked -p sim -p provider --target "$host" >&2
printf '%s\n' "$target/$host/release"
