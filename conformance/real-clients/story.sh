# Shared parts of the scripts that test our provider as a process: checks, the sim, the workload cluster, and the provider. To be
# sourced, with the arguments of the script:
#
#   [--cluster built-in|real] [PROVIDER [SIM [JUDGE]]]
#
# The workload cluster is that of the sim, with simulated kubelets, or a real etcd and kube-apiserver, where the script itself writes
# the Nodes in place of kubelets. PROVIDER defaults to target/release/provider, SIM to target/release/sim, JUDGE to
# target/release/conformance. The sourcing script sets `mode`, fills the array `provider_flags` before it calls `start`, and fills the
# array `secrets` with --secret options of `conformance judge`.

me=$(basename "$0")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}/release
cluster=built-in
if [ "${1:-}" = --cluster ]; then
  cluster=${2:-}
  shift 2 || true
  [[ $cluster =~ ^(built-in|real)$ ]] || { echo "$me: --cluster '$cluster': expected built-in or real" >&2; exit 2; }
fi
PROVIDER=${1:-${PROVIDER_BIN:-$target/provider}}
SIM=${2:-${SIM_BIN:-$target/sim}}
JUDGE=${3:-${JUDGE_BIN:-$target/conformance}}
[ -x "$PROVIDER" ] || { echo "$me: no provider at $PROVIDER; build it: cargo build --release --locked -p vsphere-cloud-provider" >&2; exit 1; }
[ -x "$SIM" ] || { echo "$me: no sim at $SIM; build it: cargo build --release --locked -p vsphere-sim" >&2; exit 1; }
[ -x "$JUDGE" ] || { echo "$me: no judge at $JUDGE; build it: cargo build --release --locked -p vsphere-conformance" >&2; exit 1; }
for tool in curl python3; do
  command -v $tool >/dev/null || { echo "$me: $tool is needed; apt-get install $tool" >&2; exit 1; }
done

dir=$(mktemp -d)
sim= provider= real=
cleanup() {
  [ -z "$provider" ] || kill -KILL "$provider" 2>/dev/null
  [ -z "$sim" ] || { kill -TERM "$sim" && wait "$sim"; } 2>/dev/null
  [ -z "$real" ] || { kill -TERM "$real" && wait "$real"; } 2>/dev/null
  rm -rf "$dir"
}
trap cleanup EXIT

# ---- checks
passed=0 failed=0
pass() { passed=$((passed + 1)); printf 'ok   %s\n' "$1"; }
fail() {
  failed=$((failed + 1))
  printf 'FAIL %s\n' "$1"
  [ ! -s "$dir/why" ] || sed 's/^/     | /' "$dir/why"
  tail -n 12 "$dir/provider.log" 2>/dev/null | cut -c1-240 | sed 's/^/     log | /'
}
ok() { # NAME COMMAND…: passes if the command succeeds
  local name=$1
  shift
  if "$@"; then pass "$name"; else fail "$name"; fi
}
until_so() { # NAME SECONDS COMMAND…: repeats the command until it succeeds; fails after SECONDS, or if the sim has ended
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
judge() { "$here/judge.py" "$dir/why" "$@"; } # EXPRESSION URL…: see judge.py; $dir/why gets the documents if the expression is false
verdict() { # stops the sim, judges its whole recording by every invariant, and prints the counts; its exit code is that of the script
  kill -TERM "$sim"
  wait "$sim"
  printf 'exit code %s\n' $? >"$dir/why"
  sim=
  ok 'the sim ended cleanly' grep -qx 'exit code 0' "$dir/why"
  judged() {
    "$JUDGE" judge --record "$dir/recording" --ledger "$dir/ledger" --provider-log "$dir/provider.log" --mode "$mode" \
      --monitor-period 1 --policies "${starts[@]}" "${secrets[@]}" >"$dir/why" 2>&1
  }
  ok 'every invariant held during the whole run' judged
  sed 's/^/     /' "$dir/why"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}

# ---- the sim, and the workload cluster
serve() { # OPTION…: starts the sim and the workload cluster. Sets the sim's variables, CLUSTER, CLUSTER_TOKEN, CLUSTER_AUDIT, nodes and world
  [ "$cluster" = built-in ] || set -- "$@" --nodes 0
  "$SIM" serve "$@" --env "$dir/env" --record "$dir/recording" --ledger "$dir/ledger" --vcenter-listen 127.0.0.1:0 --cluster-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
    >"$dir/sim.out" 2>"$dir/sim.err" &
  sim=$!
  local end=$((SECONDS + 15))
  until [ -s "$dir/env" ] && (. "$dir/env" && curl -fsS "$SIM_ADMIN/admin/v1/healthz") >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$end" ] || ended "$sim"; then
      echo 'FAIL sim serve does not answer:'
      cat "$dir/sim.out" "$dir/sim.err"
      exit 1
    fi
    sleep 0.05
  done
  . "$dir/env"
  CLUSTER=$SIM_CLUSTER CLUSTER_TOKEN=$(token_in "$KUBECONFIG") CLUSTER_AUDIT=
  [ "$cluster" = built-in ] || real_cluster
  export CLUSTER CLUSTER_TOKEN CLUSTER_AUDIT
  nodes=$CLUSTER/api/v1/nodes
  world=$SIM_ADMIN/world
}
token_in() { sed -nE 's/^ +token: +//p' "$1" | head -n 1; } # KUBECONFIG
real_cluster() {
  CLUSTER_AUDIT=$dir/audit.jsonl
  mkfifo "$dir/real.in"
  CLUSTER_AUDIT=$CLUSTER_AUDIT "$root/conformance/peers/cluster.sh" <"$dir/real.in" >"$dir/real.out" &
  real=$!
  exec 9>"$dir/real.in" # cluster.sh runs until this is closed
  until [ -s "$dir/real.out" ]; do
    ! ended "$real" || { echo 'FAIL the API server did not start; the lines above have the reason'; exit 1; }
    sleep 0.1
  done
  read -r CLUSTER CLUSTER_TOKEN _ <"$dir/real.out"
  export CLUSTER CLUSTER_TOKEN CLUSTER_AUDIT KUBECONFIG=$dir/real.kubeconfig
  cat >"$KUBECONFIG" <<CONFIG
apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: $CLUSTER, insecure-skip-tls-verify: true}}]
users: [{name: it, user: {token: $CLUSTER_TOKEN}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
CONFIG
  "$here/kubelets.py" register || { echo 'FAIL cannot register the Nodes'; exit 1; }
}
# Sets the condition Ready in a real cluster, which has no kubelets and no controller that notices a silent kubelet.
kubelet() { # NODE True|Unknown
  [ "$cluster" = built-in ] || "$here/kubelets.py" report "$1" "$2"
}
calls() { "$here/calls.py" "$@"; }
called() { # JSON WHAT…: succeeds if the calls of the provider are exactly those in JSON; see calls.py
  local wanted=$1 found
  shift
  found=$(calls "$@")
  [ "$found" = "$wanted" ] || { printf 'wanted %s\nfound  %s\n' "$wanted" "$found" >"$dir/why"; return 1; }
}

# ---- the provider
port=$("$here/ports.py")
starts=() secrets=()
start() { # FLAG…: starts the provider with these flags in addition to `provider_flags`
  starts+=(--start "$(date -u +%FT%TZ)")
  "$PROVIDER" "${provider_flags[@]}" --kubeconfig="$KUBECONFIG" --authentication-skip-lookup --leader-elect=false \
    --bind-address=127.0.0.1 --secure-port="$port" --authorization-always-allow-paths=/readyz,/metrics --v=2 --node-monitor-period=1s --node-status-update-frequency=5s \
    "$@" >>"$dir/provider.log" 2>&1 &
  provider=$!
}
stop() { # sends SIGTERM to the provider; succeeds if it ends within ten seconds with exit code 0
  kill -TERM "$provider"
  local end=$((SECONDS + 10))
  while alive "$provider"; do
    [ "$SECONDS" -lt "$end" ] || { echo 'the provider still runs ten seconds after SIGTERM' >"$dir/why"; return 1; }
    sleep 0.1
  done
  wait "$provider"
  local code=$?
  provider=
  echo "exit code $code" >"$dir/why"
  [ $code -eq 0 ]
}
served() { # checks the provider's endpoint: readiness and metrics
  ok 'health: ready' [ "$(curl -ksS "https://127.0.0.1:$port/readyz" | head -c 2)" = ok ]
  ok 'metrics: initialized nodes are counted' [ "$(curl -ksS "https://127.0.0.1:$port/metrics" | grep -c '^[a-z_]*nodes_initialized[a-z_]* [1-9]')" -ge 1 ]
}
