#!/usr/bin/env bash
# Measures the memory of the simulator and of a provider over time, with many nodes, changes of machines, and thirty watches,
# of which ten read slowly.
#
#   benches/soak.sh [NODES [MINUTES [OUT]]]        by default 500, 30 and a file in the temporary folder
#
# `MALLOC_ARENA_MAX=1` in the environment avoids the fragmentation by several arenas of glibc.
#
# Writes a line to OUT every ten seconds, and prints one per minute: seconds, resident MiB of the simulator and of the
# provider, and the number of Events in the simulator. By default Events live for an hour, as in kube-apiserver, and the
# ledger takes up to 128 MiB, so that both would grow during a whole run of 30 minutes. The script sets smaller bounds, which
# both reach in the first third of such a run. Any later growth is a leak.
# Exits with 1 if the simulator or the provider later exceeds 1.1 times its maximum of the first third plus 16 MiB. Needs the
# binaries of a release (cargo build --profile dist --locked -p vsphere-sim -p vsphere-cloud-provider) and curl.
set -euo pipefail

nodes=${1:-500} minutes=${2:-30} out=${3:-${TMPDIR:-/tmp}/soak.tsv}
. "$(dirname "${BASH_SOURCE[0]}")/started.sh"
serve=(--event-ttl 5m --ledger-memory 2)
start "$nodes"

# Keeps a watch open, and opens it again whenever it ends. A slow reader reads 2 kB/s, less than the simulator sends.
watch() { # RESOURCE OPTION…
  local resource=$1; shift
  until [ -e "$dir/end" ]; do
    curl -sS -N "$@" --cacert "$SIM_CA" -H "Authorization: Bearer $token" \
      "$SIM_CLUSTER/api/v1/$resource?watch=true&allowWatchBookmarks=true" >/dev/null 2>&1 &
    # Without this trap a slow reader would go on reading buffered data after the simulator has ended.
    trap "kill $! 2>/dev/null; exit 0" TERM
    wait $! || true
    sleep 1
  done
}
for _ in $(seq 10); do
  watch nodes & others+=($!)
  watch nodes --limit-rate 2k & others+=($!)
  watch events & others+=($!)
done

# Makes up to two changes a second: of addresses, of power, and by creating and deleting machines with kubelets. The provider
# deletes the Nodes of the deleted machines.
happen() { "$dist/sim" world event "$1" >/dev/null 2>>"$dir/churn.log" || echo "$1" >>"$dir/churn.failed"; }
churn() {
  local n=0 machine
  until [ -e "$dir/end" ]; do
    n=$((n + 1)) machine=$(printf 'node-%04d' $((n % nodes + 1)))
    case $((n % 8)) in
      0) happen "{\"vm.create\": {\"spec\": {\"name\": \"guest-$n\"}, \"power_on\": true, \"kubelet\": true}}" ;;
      # Deletes a machine about 80 s after its creation. Its kubelet starts 30 s after the power-on.
      4) [ "$n" -lt 172 ] || happen "{\"vm.delete\": \"guest-$((n - 164))\"}" ;;
      2) happen "{\"vm.powerOff\": \"$machine\"}" ; sleep 0.2; happen "{\"vm.powerOn\": \"$machine\"}" ;;
      *) happen "{\"guest.ip.set\": {\"machine\": \"$machine\", \"addresses\": [[\"10.77.$((n / 250 % 250)).$((n % 250 + 1))\"]]}}" ;;
    esac
    sleep 0.5
  done
}
churn & others+=($!)

count() { # RESOURCE
  curl -sS --cacert "$SIM_CA" -H "Authorization: Bearer $token" "$SIM_CLUSTER/api/v1/$1?limit=1" |
    awk 'match($0, /"remainingItemCount": ?[0-9]+/) { n = substr($0, RSTART, RLENGTH); sub(/.*: ?/, "", n) } END { print n + 1 }'
}
resident() { awk '/VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/$1/status"; }
: >"$out"
begin=$SECONDS
while [ $((SECONDS - begin)) -lt $((minutes * 60)) ]; do
  sleep 10
  running "$sim" sim; running "$provider" provider
  printf '%d\t%s\t%s\t%s\n' $((SECONDS - begin)) "$(resident "$sim")" "$(resident "$provider")" "$(count events)" >>"$out"
  [ $(((SECONDS - begin) % 60)) -ge 10 ] || tail -n 1 "$out"
done
[ "$(count nodes)" -gt "$nodes" ] || { echo "soak.sh: no created machine has become a node" >&2; exit 1; }
[ ! -e "$dir/churn.failed" ] || { echo "soak.sh: the simulator refused $(wc -l <"$dir/churn.failed") events; the first: $(head -n 1 "$dir/churn.failed"): $(head -n 1 "$dir/churn.log")" >&2; exit 1; }
awk -v third=$((minutes * 20)) '
  $1 <= third { for (i = 2; i <= 3; i++) if ($i > first[i]) first[i] = $i; next }
  { for (i = 2; i <= 3; i++) if ($i > later[i]) later[i] = $i }
  END {
    split("  simulator provider", name, " "); bad = 0
    for (i = 2; i <= 3; i++) {
      printf "%s: %.1f MiB at most in the first third, %.1f MiB at most later\n", name[i - 1], first[i], later[i]
      if (later[i] > first[i] * 1.1 + 16) bad = 1
    }
    exit bad
  }' "$out"
