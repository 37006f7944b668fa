#!/usr/bin/env bash
# What an idle provider takes: resident memory and processor time with all nodes initialised and nothing happening.
#
#   benches/idle.sh [NODES [SECONDS]]        5000 and 60, if nothing is said
#
# Needs the release binaries (cargo build --release --locked -p sim -p provider) and curl. Kubelets renew their leases
# meanwhile, as real ones do; the client rates are raised so that the nodes are initialised in seconds, not in minutes.
set -euo pipefail

nodes=${1:-5000} seconds=${2:-60}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
release=${CARGO_TARGET_DIR:-$root/target}/release
for program in sim provider; do
  [ -x "$release/$program" ] || { echo "idle.sh: no $release/$program; cargo build --release --locked -p sim -p provider" >&2; exit 1; }
done
command -v curl >/dev/null || { echo "idle.sh: curl is needed: apt-get install curl" >&2; exit 1; }

dir=$(mktemp -d) sim='' provider=''
cleanup() {
  for process in $provider $sim; do
    kill -TERM "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$dir"
}
trap cleanup EXIT
running() { kill -0 "$1" 2>/dev/null || { echo "idle.sh: $2 ended:" >&2; tail -n 5 "$dir/$2.log" >&2; exit 1; }; }

"$release/sim" serve --vms "$nodes" --nodes all --zones 3 --env "$dir/env" --vcenter-listen 127.0.0.1:0 \
  --cluster-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 >"$dir/sim.log" 2>&1 &
sim=$!
until [ -s "$dir/env" ]; do running "$sim" sim; sleep 0.1; done
. "$dir/env"
cat >"$dir/vsphere.conf" <<CONF
[Global]
user = "$SIM_VC0_PROVIDER_USERNAME"
password = "$SIM_VC0_PROVIDER_PASSWORD"
ca-file = "$SIM_CA"
port = "${SIM_VC0_URL##*:}"
[VirtualCenter "127.0.0.1"]
[Labels]
region = "k8s-region"
zone = "k8s-zone"
CONF
"$release/provider" --cloud-provider=vsphere --cloud-config="$dir/vsphere.conf" --kubeconfig="$KUBECONFIG" \
  --leader-elect=false --secure-port=0 --kube-api-qps=1000 --kube-api-burst=1000 >"$dir/provider.log" 2>&1 &
provider=$!
token=$(sed -nE 's/^ +token: +//p' "$KUBECONFIG" | head -n 1)
waiting() { # how many nodes are not initialised
  curl -fsS --cacert "$SIM_CA" -H "Authorization: Bearer $token" "$SIM_CLUSTER/api/v1/nodes" |
    grep -o '"key":"node.cloudprovider.kubernetes.io/uninitialized"' | wc -l
}
begin=$SECONDS
until [ "$(waiting)" -eq 0 ]; do running "$provider" provider; sleep 1; done
echo "$nodes nodes initialised within $((SECONDS - begin + 1)) s"

sleep 15 # what follows the last write
ticks() { awk '{print $14 + $15}' "/proc/$provider/stat"; }
before=$(ticks)
sleep "$seconds"
after=$(ticks)
running "$provider" provider
awk -v t=$((after - before)) -v s="$seconds" -v hz="$(getconf CLK_TCK)" -v kb="$(awk '/VmRSS/ {print $2}' "/proc/$provider/status")" \
  -v high="$(awk '/VmHWM/ {print $2}' "/proc/$provider/status")" 'BEGIN {
    printf "idle for %d s: %.2f %% of one core, %.1f MiB resident (%.1f MiB at most)\n", s, 100 * t / hz / s, kb / 1024, high / 1024 }'
