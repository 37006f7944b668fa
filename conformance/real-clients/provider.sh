#!/usr/bin/env bash
# Our provider as a process against `sim serve`, over TLS and on the real clock: nodes join, one gets another address,
# one machine is shut down, one is deleted, and SIGTERM leaves no login behind.
#
#   conformance/real-clients/provider.sh [PROVIDER [SIM]]
#
# PROVIDER defaults to target/release/provider, SIM to target/release/sim. Takes about two minutes: a kubelet that falls
# silent is noticed after the usual grace period.
set -uo pipefail

NODES=${NODES:-50}
ZONES=3
DC=DC0

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}/release
PROVIDER=${1:-${PROVIDER_BIN:-$target/provider}}
SIM=${2:-${SIM_BIN:-$target/sim}}
[ -x "$PROVIDER" ] || { echo "provider.sh: no provider at $PROVIDER; build it: cargo build --release --locked -p provider" >&2; exit 1; }
[ -x "$SIM" ] || { echo "provider.sh: no sim at $SIM; build it: cargo build --release --locked -p sim" >&2; exit 1; }
for tool in curl python3; do
  command -v $tool >/dev/null || { echo "provider.sh: $tool is needed; apt-get install $tool" >&2; exit 1; }
done

dir=$(mktemp -d)
sim= provider=
cleanup() {
  [ -z "$provider" ] || kill -KILL "$provider" 2>/dev/null
  [ -z "$sim" ] || { kill -TERM "$sim" && wait "$sim"; } 2>/dev/null
  rm -rf "$dir"
}
trap cleanup EXIT

# ---- what a check is
passed=0 failed=0
pass() { passed=$((passed + 1)); printf 'ok   %s\n' "$1"; }
fail() {
  failed=$((failed + 1))
  printf 'FAIL %s\n' "$1"
  [ ! -s "$dir/why" ] || sed 's/^/     | /' "$dir/why"
  tail -n 12 "$dir/provider.log" 2>/dev/null | cut -c1-240 | sed 's/^/     log | /'
}
ok() { # NAME COMMAND…
  local name=$1
  shift
  if "$@"; then pass "$name"; else fail "$name"; fi
}
until_so() { # NAME SECONDS COMMAND…: again and again until it holds
  local name=$1 end=$((SECONDS + $2))
  shift 2
  until "$@"; do
    if [ "$SECONDS" -ge "$end" ] || ! alive "$sim"; then
      fail "$name"
      return 1
    fi
    sleep 0.3
  done
  pass "$name"
}
alive() { kill -0 "$1" 2>/dev/null; }
ended() { ! alive "$1"; }
judge() { # EXPRESSION URL…: true in Python with the documents as d[0], d[1], …; says in $dir/why what it saw
  python3 - "$dir/why" "$@" <<'PY'
import json, os, ssl, sys, urllib.request
why, expression, *urls = sys.argv[1:]
context = ssl.create_default_context(cafile=os.environ["SIM_CA"])
def fetch(url):
    token = os.environ["CLUSTER_TOKEN"] if url.startswith(os.environ["SIM_CLUSTER"]) else os.environ.get("SIM_ADMIN_TOKEN", "")
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token} if token else {})
    with urllib.request.urlopen(request, timeout=10, context=context if url.startswith("https") else None) as answer:
        return json.load(answer)
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
def taints(node): return [t["key"] for t in node["spec"].get("taints", [])]
def addresses(node): return sorted({a["address"] for a in node["status"].get("addresses", []) if a["type"].endswith("IP")})
def annotations(node): return node["metadata"].get("annotations", {})
def labels(node): return node["metadata"].get("labels", {})
try:
    d = [fetch(url) for url in urls]
    holds, seen = eval(expression), d
except Exception as error:
    holds, seen = False, repr(error)
with open(why, "w") as out:
    out.write("" if holds else f"{expression}\n{json.dumps(seen)[:600]}\n")
sys.exit(not holds)
PY
}
writes() { # how often the provider wrote to nodes
  "$SIM" ledger --op '@write' | python3 -c '
import json, sys
ops = [json.loads(line) for line in sys.stdin]
print(sum(o["op"] in ("patch nodes", "patch nodes/status", "update nodes", "delete nodes") for o in ops))'
}

# ---- the sim
"$SIM" serve --vms "$NODES" --nodes all --zones $ZONES --env "$dir/env" --vcenter-listen 127.0.0.1:0 \
  --cluster-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 >"$dir/sim.out" 2>"$dir/sim.err" &
sim=$!
end=$((SECONDS + 15))
until [ -s "$dir/env" ] && (. "$dir/env" && curl -fsS "$SIM_ADMIN/admin/v1/healthz") >/dev/null 2>&1; do
  if [ "$SECONDS" -ge "$end" ] || ended "$sim"; then
    echo 'FAIL sim serve does not answer:'
    cat "$dir/sim.out" "$dir/sim.err"
    exit 1
  fi
  sleep 0.05
done
. "$dir/env"
CLUSTER_TOKEN=$(sed -nE 's/^ +token: +//p' "$KUBECONFIG" | head -n 1)
export CLUSTER_TOKEN
nodes=$SIM_CLUSTER/api/v1/nodes
world=$SIM_ADMIN/world
until_so "sim: $NODES nodes register, all waiting for a cloud provider" 30 \
  judge "len(d[0]['items']) == $NODES and all(UNINITIALIZED in taints(n) for n in d[0]['items'])" "$nodes"

# ---- the provider
hostport=${SIM_VC0_URL#https://}
cat >"$dir/vsphere.conf" <<EOF
[Global]
ca-file = "$SIM_CA"
port = "${hostport##*:}"

[VirtualCenter "${hostport%:*}"]
user = "$SIM_VC0_PROVIDER_USERNAME"
password = "$SIM_VC0_PROVIDER_PASSWORD"
datacenters = "$DC"

[Labels]
region = k8s-region
zone = k8s-zone
EOF
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start() {
  "$PROVIDER" --cloud-provider=vsphere --cloud-config="$dir/vsphere.conf" --kubeconfig="$KUBECONFIG" \
    --authentication-skip-lookup --leader-elect=false --bind-address=127.0.0.1 --secure-port="$port" --v=2 \
    --node-monitor-period=1s --node-status-update-frequency=5s >>"$dir/provider.log" 2>&1 &
  provider=$!
}
stop() { # within ten seconds, and with exit code 0
  kill -TERM "$provider"
  local end=$((SECONDS + 10))
  while alive "$provider"; do
    [ "$SECONDS" -lt "$end" ] || { echo 'still running after ten seconds' >"$dir/why"; return 1; }
    sleep 0.1
  done
  wait "$provider"
  local code=$?
  provider=
  echo "exit code $code" >"$dir/why"
  [ $code -eq 0 ]
}
start

# ---- join
until_so "join: no node waits any more" 60 judge "not any(UNINITIALIZED in taints(n) for n in d[0]['items'])" "$nodes"
truth="dict((m['node']['name'], m) for m in d[1]['machines'])"
ok 'join: every node has the provider ID of its machine' \
  judge "all(n['spec']['providerID'] == 'vsphere://' + ($truth)[n['metadata']['name']]['uuid'] for n in d[0]['items'])" "$nodes" "$world"
ok 'join: every node shows an address of its machine, and no other' \
  judge "all(addresses(n) and set(addresses(n)) <= set(($truth)[n['metadata']['name']]['addresses']) for n in d[0]['items'])" "$nodes" "$world"
ok "join: the nodes are spread over $ZONES zones of one region" \
  judge "len({labels(n)['topology.kubernetes.io/zone'] for n in d[0]['items']}) == $ZONES and len({labels(n)['topology.kubernetes.io/region'] for n in d[0]['items']}) == 1" "$nodes"
ok 'join: every node remembers where its machine is' \
  judge "all(annotations(n)['vsphere.cloud-provider/machine'] == d[1]['vcenters'][0]['instanceUuid'] + '/' + ($truth)[n['metadata']['name']]['moref'].split(':')[-1] for n in d[0]['items'])" "$nodes" "$world"
ok 'health: ready' [ "$(curl -ksS "https://127.0.0.1:$port/readyz" | head -c 2)" = ok ]
ok 'metrics: nodes are counted' [ "$(curl -ksS "https://127.0.0.1:$port/metrics" | grep -c '^[a-z_]*nodes_initialized[a-z_]* [1-9]')" -ge 1 ]

# ---- one address changes, one machine is shut down, one deleted
"$SIM" world event '{"guest.ip.set": {"machine": "node-0001", "addresses": [["10.77.0.1"]]}}' >/dev/null
until_so 'address: the new one is published, the old one gone' 30 \
  judge "addresses(d[0]) == ['10.77.0.1']" "$nodes/node-0001"
"$SIM" world vm power-off node-0002 >/dev/null
"$SIM" world vm delete node-0003 >/dev/null
until_so 'shutdown: the node of a machine that is off is tainted' 120 judge "SHUTDOWN in taints(d[0])" "$nodes/node-0002"
until_so 'delete: the node of a deleted machine goes' 120 \
  judge "'node-0003' not in [n['metadata']['name'] for n in d[0]['items']]" "$nodes"
ok 'delete: no other node went, and no other is tainted' \
  judge "len(d[0]['items']) == $NODES - 1 and [n['metadata']['name'] for n in d[0]['items'] if SHUTDOWN in taints(n)] == ['node-0002']" "$nodes"
"$SIM" world vm power-on node-0002 >/dev/null
until_so 'power on: the taint goes when the node is back' 150 judge "SHUTDOWN not in taints(d[0])" "$nodes/node-0002"

# ---- end, and a second life
ok 'sessions: one login to each API' judge "d[0]['vcenters'][0]['sessions'] in (1, 2)" "$world"
ok 'SIGTERM ends it cleanly' stop
ok 'SIGTERM leaves no login behind' judge "d[0]['vcenters'][0]['sessions'] == 0" "$world"
before=$(writes)
ok 'ledger: two writes for each node that joined, and a few more' [ "$before" -ge $((2 * NODES)) -a "$before" -le $((2 * NODES + 10)) ]
start
until_so 'restart: it logs in again' 30 judge "d[0]['vcenters'][0]['sessions'] > 0" "$world"
sleep 8
ok "restart: nothing is written to nodes" [ "$(writes)" = "$before" ]
ok 'restart: SIGTERM ends it cleanly' stop
ok 'restart: SIGTERM leaves no login behind' judge "d[0]['vcenters'][0]['sessions'] == 0" "$world"
ok 'the log names no password' [ "$(grep -cF -- "$SIM_VC0_PROVIDER_PASSWORD" "$dir/provider.log")" -eq 0 ]

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
