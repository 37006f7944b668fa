#!/usr/bin/env bash
# Builds sim and provider, and prints their folder. Both binaries are static and lack the features that only conformance
# enables. One command builds both, so that cargo builds shared crates once. PROFILE names the profile of cargo; by default it
# is that of releases, `dist`.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
host=$(rustc -vV | sed -n 's/^host: //p')
cd "$root"
# Unsets the variables of an outer cargo, because with them this cargo would rebuild crates that are already built.
unset ${!CARGO_PKG_@} ${!CARGO_MANIFEST_@} ${!CARGO_BIN_@} CARGO_CRATE_NAME
# With an explicit --target the flag does not reach macros and build scripts, which cannot be static.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
  cargo build --profile "${PROFILE:=dist}" --locked -p vsphere-sim -p vsphere-cloud-provider --target "$host" >&2
printf '%s\n' "$target/$host/$PROFILE"
