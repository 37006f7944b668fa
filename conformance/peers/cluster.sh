#!/usr/bin/env bash
# Runs a real etcd and kube-apiserver on free ports of loopback, with their data in a temporary folder.
#
#   conformance/peers/cluster.sh            prints "URL TOKEN ETCD" and runs until its standard input ends or a signal comes
#   conformance/peers/cluster.sh COMMAND…   runs COMMAND with KUBE_SERVER, KUBE_TOKEN and KUBE_ETCD set; exits with its code
#
# The binaries come from the folder KUBEBUILDER_ASSETS if it is set, else from build.sh. The script removes all its files at
# the end. Bearer tokens: admin-token (group system:masters), and alice-token and bob-token, whose users have only the rights
# of every authenticated user. With CLUSTER_AUDIT=FILE the API server logs every write to FILE as a line of JSON, without
# bodies. With CLUSTER_AUDIT_OF=GROUP in addition it logs instead every request, including reads, of the users in GROUP.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
say() { printf 'cluster: %s\n' "$*" >&2; }
die() { say "$1"; say "remedy: $2"; exit 1; }

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  etcd=$KUBEBUILDER_ASSETS/etcd apiserver=$KUBEBUILDER_ASSETS/kube-apiserver
  for it in "$etcd" "$apiserver"; do
    [ -x "$it" ] || die "KUBEBUILDER_ASSETS has no $it" "install both (setup-envtest use), or unset it to have them built"
  done
else
  etcd=$("$here/build.sh" etcd)
  apiserver=$("$here/build.sh" kube-apiserver)
fi
for it in openssl curl; do
  command -v "$it" >/dev/null || die "$it is missing" "apt-get install $it"
done

dir=$(mktemp -d)
pids=()
cleanup() {
  trap '' INT TERM HUP
  local n pid
  # Signals the API server before etcd, because the API server writes to etcd until it ends.
  for ((n = ${#pids[@]} - 1; n >= 0; n--)); do kill -TERM "${pids[n]}" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do
    for n in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

free_port() { # prints a port on which no server answers; if another program takes it first, the start fails and is tried again
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

openssl genrsa -out "$dir/sa.key" 2048 2>/dev/null
cat >"$dir/tokens" <<'TOKENS'
admin-token,admin,1,"system:masters"
alice-token,alice,2
bob-token,bob,3
TOKENS
audit=()
if [ -n "${CLUSTER_AUDIT:-}" ]; then
  audited='verbs: [create, update, patch, delete, deletecollection]'
  [ -z "${CLUSTER_AUDIT_OF:-}" ] || audited="userGroups: [\"$CLUSTER_AUDIT_OF\"]"
  cat >"$dir/audit.yaml" <<POLICY
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  $audited
- level: None
POLICY
  audit=(--audit-policy-file="$dir/audit.yaml" --audit-log-path="$CLUSTER_AUDIT" --audit-log-mode=blocking)
fi

start() {
  local peer
  client=$(free_port) peer=$(free_port) port=$(free_port)
  rm -rf "$dir/etcd"
  pids=()
  "$etcd" --unsafe-no-fsync --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$client" \
    --advertise-client-urls "http://127.0.0.1:$client" --listen-peer-urls "http://127.0.0.1:$peer" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer" \
    </dev/null >"$dir/etcd.log" 2>&1 &
  pids+=($!)
  "$apiserver" --etcd-servers="http://127.0.0.1:$client" --secure-port="$port" --bind-address=127.0.0.1 \
    --cert-dir="$dir/certs" --token-auth-file="$dir/tokens" --authorization-mode=RBAC \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file="$dir/sa.key" \
    --service-account-signing-key-file="$dir/sa.key" --service-cluster-ip-range=10.96.0.0/12 \
    --disable-admission-plugins=ServiceAccount "${audit[@]}" </dev/null >"$dir/kube-apiserver.log" 2>&1 &
  pids+=($!)
  local pid
  for _ in $(seq 600); do
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || return 1; done
    ! curl -skf -m 2 -o /dev/null -H 'Authorization: Bearer admin-token' "https://127.0.0.1:$port/readyz" || return 0
    sleep 0.1
  done
  return 1
}
up=
for _ in 1 2 3; do
  if start; then up=1; break; fi
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
done
if [ -z "$up" ]; then
  tail -n 15 "$dir/etcd.log" "$dir/kube-apiserver.log" >&2
  die "etcd and kube-apiserver did not become ready" "read the ends of their logs above"
fi

if [ $# -gt 0 ]; then
  KUBE_SERVER=https://127.0.0.1:$port KUBE_TOKEN=admin-token KUBE_ETCD=http://127.0.0.1:$client "$@"
else
  printf 'https://127.0.0.1:%s admin-token http://127.0.0.1:%s\n' "$port" "$client"
  # Waits for a reader in the background, because a signal interrupts `wait`, but not a program in the foreground.
  exec 3<&0
  cat <&3 >/dev/null &
  reader=$!
  pids+=("$reader")
  wait "$reader" || true
fi
