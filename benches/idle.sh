#!/usr/bin/env bash
# Measures resident memory and processor time of an idle provider: all nodes are initialized, and no machine changes.
#
#   benches/idle.sh [NODES [SECONDS]]        by default 5000 and 60
#
# Needs the binaries of a release (cargo build --profile dist --locked -p vsphere-sim -p vsphere-cloud-provider) and curl. The simulated kubelets renew
# their leases during the measurement, as real ones do. Higher client rates let the provider initialize the nodes in
# seconds, not in minutes.
set -euo pipefail

nodes=${1:-5000} seconds=${2:-60}
. "$(dirname "${BASH_SOURCE[0]}")/started.sh"
start "$nodes" --kube-api-qps=1000 --kube-api-burst=1000
waiting() { # prints the number of uninitialized nodes
  curl -fsS --cacert "$SIM_CA" -H "Authorization: Bearer $token" "$SIM_CLUSTER/api/v1/nodes" |
    grep -o '"key":"node.cloudprovider.kubernetes.io/uninitialized"' | wc -l
}
begin=$SECONDS
until [ "$(waiting)" -eq 0 ]; do running "$provider" provider; sleep 1; done
echo "$nodes nodes initialized within $((SECONDS - begin + 1)) s"

sleep 15 # until the work after the last write has ended
ticks() { awk '{print $14 + $15}' "/proc/$provider/stat"; }
before=$(ticks)
sleep "$seconds"
after=$(ticks)
running "$provider" provider
awk -v t=$((after - before)) -v s="$seconds" -v hz="$(getconf CLK_TCK)" -v kb="$(awk '/VmRSS/ {print $2}' "/proc/$provider/status")" \
  -v high="$(awk '/VmHWM/ {print $2}' "/proc/$provider/status")" 'BEGIN {
    printf "idle for %d s: %.2f %% of one core, %.1f MiB resident (%.1f MiB at most)\n", s, 100 * t / hz / s, kb / 1024, high / 1024 }'
