#!/usr/bin/env bash
# Holds the image of sim to what it promises: it prints what the binary prints, is healthy without a writable file system and without
# privileges, with and without a token, and ends in order at SIGTERM.
#
#   kind/images/check.sh [IMAGE [SIM]]      vsphere-lab/sim:0.1.0 and target/release/sim if left out
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
version=$(sed -nE 's/^version = "(.*)"/\1/p' "$root/Cargo.toml" | head -n 1)
image=${1:-vsphere-lab/sim:$version}
sim=${2:-${CARGO_TARGET_DIR:-$root/target}/release/sim}
name=image-check-$$
dir=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill -TERM "$server" 2>/dev/null
  docker rm -fv "$name" >/dev/null 2>&1
  rm -rf "$dir"
}
trap cleanup EXIT

. "$root/conformance/real-clients/counted.sh"
run() { docker run --detach --name "$name" --label io.vsphere-lab.check=image "$@" >/dev/null; }
gone() { docker rm -fv "$name" >/dev/null; }
within() { # SECONDS COMMAND…
  local end=$((SECONDS + $1))
  shift
  until "$@"; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.1; done
}
healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$name")" = healthy ]; }
ends() { # SIGTERM alone, and the exit code is 0; a kubelet waits 30 s before it kills
  docker kill --signal TERM "$name" >/dev/null && [ "$(timeout 20 docker wait "$name")" = 0 ]
}

# What is drawn anew for each process is left out: fingerprints, ports, and the folder of its files.
plain() { sed -E 's/([0-9A-F]{2}:){19,}[0-9A-F]{2}/FINGERPRINT/; s/127\.0\.0\.1:[0-9]+/ADDRESS/; s,=/.*/sim-[0-9]+-[0-9]+/,=DIRECTORY/,'; }
printed() { grep -q 'export SIM_ADMIN=' "$1"; }
listen=(--vcenter-listen 127.0.0.1:0 --cluster-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0)
"$sim" serve "${listen[@]}" >"$dir/binary" 2>&1 &
server=$!
touch "$dir/binary"
within 20 printed "$dir/binary"
kill -TERM "$server" && wait "$server"
server=
run "$image" serve "${listen[@]}"
logs() { docker logs "$name" >"$dir/container" 2>&1; printed "$dir/container"; }
within 20 logs
ok 'docker run IMAGE serve prints what sim serve prints' diff <(plain <"$dir/binary") <(plain <"$dir/container")
gone

confined=(--read-only --cap-drop ALL --security-opt no-new-privileges)
run "${confined[@]}" "$image"
ok 'healthy: read-only, without capabilities' within 20 healthy
ok 'SIGTERM: exit code 0' ends
gone
run "${confined[@]}" "$image" serve --admin-listen 0.0.0.0:8900
ok 'healthy: with a token that the check does not know' within 20 healthy
ok 'the admin port wants that token' [ "$(docker exec "$name" /sim ledger 2>&1 | grep -c 'bearer token')" = 1 ]
ok 'SIGTERM: exit code 0, with that too' ends
gone
run "${confined[@]}" --tmpfs /tmp -e SIM_ADMIN_TOKEN=known "$image" serve --admin-listen 0.0.0.0:8900 --supervisor /tmp/mounts
ok 'healthy: with a tmpfs, a Supervisor and a token' within 20 healthy
ok 'docker exec IMAGE /sim finds token and port by itself' docker exec "$name" /sim fault list
gone
run "${confined[@]}" -e SIM_ADMIN=http://127.0.0.1:1 --health-interval 1s --health-start-period 1s --health-retries 1 "$image"
unhealthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$name")" = unhealthy ]; }
ok 'unhealthy: where nothing answers' within 20 unhealthy

verdict
