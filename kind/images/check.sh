#!/usr/bin/env bash
# Checks the promises of the images. The image of sim prints the same as the binary, is healthy without a writable file system and without
# privileges, with and without a token, and exits with 0 at SIGTERM. The image of the provider has the program under its own name and under
# upstream's path. Under the same restrictions the provider initializes nodes, becomes ready, and exits with 0 at SIGTERM.
#
#   kind/images/check.sh [IMAGE [SIM [PROVIDER]]]      default: vsphere-lab/sim:0.1.0, target/release/sim, vsphere-lab/provider:0.1.0
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
version=$(sed -nE 's/^version = "(.*)"/\1/p' "$root/Cargo.toml" | head -n 1)
image=${1:-vsphere-lab/sim:$version}
sim=${2:-${CARGO_TARGET_DIR:-$root/target}/release/sim}
provider=${3:-vsphere-lab/provider:$version}
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
ends() { # sends SIGTERM; true if the container ends with exit code 0 within 20 s (a kubelet kills it after 30 s)
  docker kill --signal TERM "$name" >/dev/null && [ "$(timeout 20 docker wait "$name")" = 0 ]
}

# Replaces the values that differ for each process: fingerprints, ports, and the folder of its files.
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
ok 'docker run IMAGE serve prints the same as sim serve' diff <(plain <"$dir/binary") <(plain <"$dir/container")
gone

confined=(--read-only --cap-drop ALL --security-opt no-new-privileges)
run "${confined[@]}" "$image"
ok 'healthy: with a read-only file system, without capabilities' within 20 healthy
ok 'SIGTERM: exit code 0' ends
gone
run "${confined[@]}" "$image" serve --admin-listen 0.0.0.0:8900
ok 'healthy: with a token that the health check does not have' within 20 healthy
ok 'the admin port requires that token' [ "$(docker exec "$name" /sim ledger 2>&1 | grep -c 'no valid token')" = 1 ]
ok 'SIGTERM: exit code 0, with a token' ends
gone
run "${confined[@]}" --tmpfs /tmp -e SIM_ADMIN_TOKEN=known "$image" serve --admin-listen 0.0.0.0:8900 --supervisor /tmp/mounts
ok 'healthy: with a tmpfs, a Supervisor and a token' within 20 healthy
ok 'docker exec IMAGE /sim finds token and port by itself' docker exec "$name" /sim fault list
gone
run "${confined[@]}" -e SIM_ADMIN=http://127.0.0.1:1 --health-interval 1s --health-start-period 1s --health-retries 1 "$image"
unhealthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$name")" = unhealthy ]; }
ok 'unhealthy: if nothing answers at SIM_ADMIN' within 20 unhealthy
gone

# ---- the provider
ok 'provider: prints its version' docker run --rm "${confined[@]}" "$provider" --version
ok "provider: prints the same version under upstream's path" diff <(docker run --rm "$provider" --version) \
  <(docker run --rm --entrypoint /bin/vsphere-cloud-controller-manager "$provider" --version)
ok 'provider: runs as user 65532' [ "$(docker inspect -f '{{.Config.User}}' "$provider")" = 65532:65532 ]
"$sim" serve "${listen[@]}" --vms 3 --env "$dir/env" >"$dir/serve" 2>&1 &
server=$!
serves() { [ -s "$dir/env" ]; }
within 20 serves && . "$dir/env"
hostport=${SIM_VC0_URL#https://}
mkdir "$dir/given"
cat >"$dir/given/vsphere.conf" <<CONF
[Global]
ca-file = "/given/ca.pem"
port = "${hostport##*:}"

[VirtualCenter "${hostport%:*}"]
user = "$SIM_VC0_PROVIDER_USERNAME"
password = "$SIM_VC0_PROVIDER_PASSWORD"
datacenters = "DC0"
CONF
cp "$SIM_CA" "$dir/given/ca.pem"
cp "$KUBECONFIG" "$dir/given/kubeconfig"
chmod -R a+rX "$dir/given"
port=$((20000 + $$ % 10000)) # below the ephemeral ports of the system
run "${confined[@]}" --network host --volume "$dir/given:/given:ro" --entrypoint /bin/vsphere-cloud-controller-manager "$provider" \
  --cloud-provider=vsphere --cloud-config=/given/vsphere.conf --kubeconfig=/given/kubeconfig --secure-port=$port --bind-address=127.0.0.1
ready() { curl -fsSk "https://127.0.0.1:$port/readyz"; }
ok 'provider: ready, with a read-only file system and without capabilities' within 30 ready
token=$(sed -nE 's/^ +token: +//p' "$KUBECONFIG" | head -n 1)
initialized() { [ "$(curl -fsSk -H "Authorization: Bearer $token" "$SIM_CLUSTER/api/v1/nodes" | grep -o '"providerID": *"vsphere://' | wc -l)" = 3 ]; }
ok 'provider: three nodes are initialized' within 30 initialized
ok 'provider: SIGTERM: exit code 0' ends
docker logs --tail 5 "$name" >"$dir/why" 2>&1

verdict
