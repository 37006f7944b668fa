# Functions for idle.sh and soak.sh, which source this file: `start` starts a simulator with nodes and a provider that
# manages them. At the exit of the script both end.
#
#   start NODES PROVIDER_OPTION…     sets sim and provider (process ids), token, and the variables of `sim serve --env`
#
# dir is a temporary folder. The caller may add options of `sim serve` to the array `serve` before it calls `start`, and ids
# of processes to the array `others`. At the exit the processes in `others` end before provider and simulator.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dist=${CARGO_TARGET_DIR:-$root/target}/dist
me=$(basename "$0")
for program in sim provider; do
  [ -x "$dist/$program" ] || { echo "$me: $dist/$program is missing: cargo build --profile dist --locked -p vsphere-sim -p vsphere-cloud-provider" >&2; exit 1; }
done
command -v curl >/dev/null || { echo "$me: curl is missing: apt-get install curl" >&2; exit 1; }

dir=$(mktemp -d) sim='' provider='' others=() serve=()
cleanup() {
  touch "$dir/end"
  for process in "${others[@]}" $provider $sim; do
    kill -TERM "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$dir"
}
trap cleanup EXIT
running() { kill -0 "$1" 2>/dev/null || { echo "$me: $2 has ended; its last log lines:" >&2; tail -n 5 "$dir/$2.log" >&2; exit 1; }; }

start() {
  local nodes=$1; shift
  "$dist/sim" serve --vms "$nodes" --nodes all --zones 3 --env "$dir/env" --vcenter-listen 127.0.0.1:0 \
    --cluster-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 "${serve[@]}" >"$dir/sim.log" 2>&1 &
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
  "$dist/provider" --cloud-provider=vsphere --cloud-config="$dir/vsphere.conf" --kubeconfig="$KUBECONFIG" \
    --leader-elect=false --secure-port=0 "$@" >"$dir/provider.log" 2>&1 &
  provider=$!
  token=$(sed -nE 's/^ +token: +//p' "$KUBECONFIG" | head -n 1)
}
