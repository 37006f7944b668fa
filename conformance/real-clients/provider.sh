#!/usr/bin/env bash
# Tests our provider as a process in vCenter mode, over TLS and on the real clock: nodes join, one gets another address, one machine is
# shut down, one is deleted, SIGTERM leaves no session behind, and a leader that was suspended writes nothing more.
#
#   conformance/real-clients/provider.sh [--cluster built-in|real] [PROVIDER [SIM [JUDGE]]]
#
# See story.sh. Takes about two minutes, because the cluster notices a silent kubelet only after the usual grace period.
set -uo pipefail

mode=vcenter
NODES=${NODES:-50}
ZONES=3
DC=DC0
. "$(dirname "${BASH_SOURCE[0]}")/story.sh"

serve --vms "$NODES" --zones $ZONES
until_so "sim: $NODES nodes register, all uninitialized" 30 \
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
provider_flags=(--cloud-provider=vsphere --cloud-config="$dir/vsphere.conf")
start

# ---- join
until_so "join: every node is initialized" 60 judge "not any(UNINITIALIZED in taints(n) for n in d[0]['items'])" "$nodes"
truth="dict((m['name'], m) for m in d[1]['machines'])"
ok 'join: every node has the provider ID of its machine' \
  judge "all(n['spec']['providerID'] == 'vsphere://' + ($truth)[n['metadata']['name']]['uuid'] for n in d[0]['items'])" "$nodes" "$world"
ok 'join: every node shows only addresses of its machine' \
  judge "all(addresses(n) and set(addresses(n)) <= set(($truth)[n['metadata']['name']]['addresses']) for n in d[0]['items'])" "$nodes" "$world"
ok "join: the nodes are in $ZONES zones of one region" \
  judge "len({labels(n)['topology.kubernetes.io/zone'] for n in d[0]['items']}) == $ZONES and len({labels(n)['topology.kubernetes.io/region'] for n in d[0]['items']}) == 1" "$nodes"
ok 'join: every node has the reference of its machine as annotation' \
  judge "all(annotations(n)['vsphere.cloud-provider/machine'] == d[1]['vcenters'][0]['instanceUuid'] + '/' + ($truth)[n['metadata']['name']]['moref'].split(':')[-1] for n in d[0]['items'])" "$nodes" "$world"
served

# ---- one address changes, one machine is shut down, one deleted
"$SIM" world event '{"guest.ip.set": {"machine": "node-0001", "addresses": [["10.77.0.1"]]}}' >/dev/null
until_so 'address: the node shows only the new one' 30 \
  judge "addresses(d[0]) == ['10.77.0.1']" "$nodes/node-0001"
"$SIM" world vm power-off node-0002 >/dev/null
"$SIM" world vm delete node-0003 >/dev/null
kubelet node-0002 Unknown
kubelet node-0003 Unknown
until_so 'shutdown: the node gets the shutdown taint' 120 judge "SHUTDOWN in taints(d[0])" "$nodes/node-0002"
until_so 'delete: the node of the deleted machine is deleted' 120 \
  judge "'node-0003' not in [n['metadata']['name'] for n in d[0]['items']]" "$nodes"
ok 'delete: no other node is deleted or tainted' \
  judge "len(d[0]['items']) == $NODES - 1 and [n['metadata']['name'] for n in d[0]['items'] if SHUTDOWN in taints(n)] == ['node-0002']" "$nodes"
"$SIM" world vm power-on node-0002 >/dev/null
kubelet node-0002 True
until_so 'power on: the shutdown taint is removed' 150 judge "SHUTDOWN not in taints(d[0])" "$nodes/node-0002"

# ---- end, and a second start
ok 'sessions: at most one for each API' judge "d[0]['vcenters'][0]['sessions'] in (1, 2)" "$world"
ok 'SIGTERM ends the provider cleanly' stop
ok 'SIGTERM leaves no session behind' judge "d[0]['vcenters'][0]['sessions'] == 0" "$world"
# Each node that joins takes one write of its addresses and one of its other fields. Later one address changes, one taint is added and
# removed, and one node is deleted.
ok 'ledger: two writes for each node that joined, and one for each later change' \
  called "{\"delete nodes\": 1, \"patch nodes\": $((NODES + 2)), \"patch nodes/status\": $((NODES + 1))}" writes
before=$(calls writes)
start
until_so 'restart: the provider logs in again' 30 judge "d[0]['vcenters'][0]['sessions'] > 0" "$world"
sleep 8
ok "restart: the provider writes nothing to nodes" called "$before" writes
ok 'restart: SIGTERM ends the provider cleanly' stop
ok 'restart: SIGTERM leaves no session behind' judge "d[0]['vcenters'][0]['sessions'] == 0" "$world"

# ---- a leader that SIGSTOP suspends while it writes, and that goes on when another replica holds the lease
lease=$CLUSTER/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager
request() { # METHOD URL [BODY]
  curl -fsSk -X "$1" -H "Authorization: Bearer $CLUSTER_TOKEN" -H 'Content-Type: application/merge-patch+json' ${3:+-d "$3"} "$2" >/dev/null
}
exited() { ! alive "$provider" && { wait "$provider"; provider=; true; }; }
for round in 1 2 3 4 5; do
  start --leader-elect=true --leader-elect-lease-duration=3s --leader-elect-renew-deadline=2s --leader-elect-retry-period=500ms \
    --kube-api-qps=10 --kube-api-burst=1
  until_so "suspended leader $round: it leads" 30 judge "d[0]['spec'].get('holderIdentity') not in (None, '', 'another')" "$lease"
  sleep 2
  for n in $(seq 4 "$NODES"); do
    printf '{"guest.ip.set": {"machine": "node-%04d", "addresses": [["10.78.%d.%d"]]}},' "$n" "$round" "$n"
  done | sed 's/,$/]/; s/^/[/' >"$dir/events"
  before=$(calls writes)
  "$SIM" world event "$(cat "$dir/events")" >/dev/null
  writing() { [ "$(calls writes)" != "$before" ]; }
  until_so "suspended leader $round: it writes" 20 writing
  kill -STOP "$provider"
  sleep 4
  request PATCH "$lease" "{\"spec\": {\"holderIdentity\": \"another\", \"renewTime\": \"$(date -u +%FT%T.000000Z)\"}}"
  ok "suspended leader $round: it has more to write" \
    judge "any(not addresses(n)[0].startswith('10.78.$round.') for n in d[0]['items'] if n['metadata']['name'] > 'node-0003')" "$nodes"
  before=$(calls writes)
  kill -CONT "$provider"
  until_so "suspended leader $round: it ends" 20 exited
  ok "suspended leader $round: it has written nothing after it went on" called "$before" writes
  request DELETE "$lease"
done
ok 'the log of the provider contains no password' [ "$(grep -cF -- "$SIM_VC0_PROVIDER_PASSWORD" "$dir/provider.log")" -eq 0 ]

verdict
