#!/usr/bin/env bash
# Whether the simulator's memory stays flat: a fleet, a provider, churn and thirty watchers, of which ten read slowly.
#
#   benches/soak.sh [NODES [MINUTES [OUT]]]        500, 30 and a file in the temporary folder, if nothing is said
#
# Prints a line per minute and writes one every ten seconds to OUT: seconds, resident MiB of the simulator and of the provider.
# Ends with 1 if either has more after the first third than a tenth and 16 MiB above what it had then. Needs the release
# binaries (cargo build --release --locked -p sim -p provider) and curl.
set -euo pipefail

nodes=${1:-500} minutes=${2:-30} out=${3:-${TMPDIR:-/tmp}/soak.tsv}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
release=${CARGO_TARGET_DIR:-$root/target}/release
for program in sim provider; do
  [ -x "$release/$program" ] || { echo "soak.sh: no $release/$program; cargo build --release --locked -p sim -p provider" >&2; exit 1; }
done
command -v curl >/dev/null || { echo "soak.sh: curl is needed: apt-get install curl" >&2; exit 1; }

dir=$(mktemp -d) sim='' provider='' others=()
cleanup() {
  touch "$dir/end"
  for process in "${others[@]}" $provider $sim; do
    kill -TERM "$process" 2>/dev/null || true
  done
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
running() { kill -0 "$1" 2>/dev/null || { echo "soak.sh: $2 ended:" >&2; tail -n 5 "$dir/$2.log" >&2; exit 1; }; }

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
  --leader-elect=false --secure-port=0 >"$dir/provider.log" 2>&1 &
provider=$!
token=$(sed -nE 's/^ +token: +//p' "$KUBECONFIG" | head -n 1)

# A watch is opened again whenever it ends. Slow readers take two kilobytes a second, less than there is to tell.
watch() { # RESOURCE OPTION…
  local resource=$1; shift
  until [ -e "$dir/end" ]; do
    curl -sS -N "$@" --cacert "$SIM_CA" -H "Authorization: Bearer $token" \
      "$SIM_CLUSTER/api/v1/$resource?watch=true&allowWatchBookmarks=true" >/dev/null 2>&1 || true
    sleep 1
  done
}
for _ in $(seq 10); do
  watch nodes & others+=($!)
  watch nodes --limit-rate 2k & others+=($!)
  watch events & others+=($!)
done

# Two changes a second: addresses, power, and machines that come and go with their nodes.
happen() { "$release/sim" world event "$1" >/dev/null 2>>"$dir/churn.log" || echo "$1" >>"$dir/churn.failed"; }
churn() {
  local n=0 machine
  until [ -e "$dir/end" ]; do
    n=$((n + 1)) machine=$(printf 'node-%04d' $((n % nodes + 1)))
    case $((n % 8)) in
      0) happen "{\"vm.create\": {\"spec\": {\"name\": \"guest-$n\"}, \"power_on\": true, \"kubelet\": true}}" ;;
      4) [ "$n" -lt 52 ] || happen "{\"vm.delete\": \"guest-$((n - 44))\"}" ;;
      2) happen "{\"vm.powerOff\": \"$machine\"}" ; sleep 0.2; happen "{\"vm.powerOn\": \"$machine\"}" ;;
      *) happen "{\"guest.ip.set\": {\"machine\": \"$machine\", \"addresses\": [[\"10.77.$((n / 250 % 250)).$((n % 250 + 1))\"]]}}" ;;
    esac
    sleep 0.5
  done
}
churn & others+=($!)

resident() { awk '/VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/$1/status"; }
: >"$out"
begin=$SECONDS
while [ $((SECONDS - begin)) -lt $((minutes * 60)) ]; do
  sleep 10
  running "$sim" sim; running "$provider" provider
  printf '%d\t%s\t%s\n' $((SECONDS - begin)) "$(resident "$sim")" "$(resident "$provider")" >>"$out"
  [ $(((SECONDS - begin) % 60)) -ge 10 ] || tail -n 1 "$out"
done
[ ! -e "$dir/churn.failed" ] || { echo "soak.sh: $(wc -l <"$dir/churn.failed") events were refused; the first: $(head -n 1 "$dir/churn.failed"): $(head -n 1 "$dir/churn.log")" >&2; exit 1; }
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
