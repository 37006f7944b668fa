#!/usr/bin/env bash
# Tests our provider as a process in Supervisor mode, over TLS and on the real clock: nodes join, one gets another address, the token
# changes, and kubectl switches one machine off and deletes another one through their VirtualMachines.
#
#   conformance/real-clients/provider-supervisor.sh [--cluster built-in|real] [PROVIDER [SIM [JUDGE]]]
#
# See story.sh. KUBECTL names a kubectl; by default the script builds one. Takes about two minutes, because the cluster notices a silent
# kubelet only after the usual grace period.
set -uo pipefail

mode=supervisor
NODES=${NODES:-50}
ZONES=3
. "$(dirname "${BASH_SOURCE[0]}")/story.sh"
KUBECTL=${KUBECTL:-$("$root/conformance/peers/build.sh" kubectl)} || exit

serve --vms "$NODES" --zones $ZONES --supervisor "$dir/mounts" --supervisor-profile watch --supervisor-listen 127.0.0.1:0
SUPERVISOR_TOKEN=$(token_in "$SIM_SUPERVISOR_KUBECONFIG")
export SUPERVISOR_TOKEN
vms=$SIM_SUPERVISOR/apis/vmoperator.vmware.com/v1alpha6/namespaces/$SIM_SUPERVISOR_NAMESPACE/virtualmachines
kubectl() { "$KUBECTL" --kubeconfig "$SIM_SUPERVISOR_KUBECONFIG" -n "$SIM_SUPERVISOR_NAMESPACE" "$@" >"$dir/why" 2>&1; }
until_so "sim: $NODES nodes register, all uninitialized" 60 \
  judge "len(d[0]['items']) == $NODES and all(UNINITIALIZED in taints(n) for n in d[0]['items'])" "$nodes"

# ---- the provider
touch "$dir/vsphere.conf"
read -ra provider_flags <<<"--cloud-provider=vsphere-paravirtual --cloud-config=$dir/vsphere.conf $SIM_SUPERVISOR_FLAGS"
start

# ---- join
until_so 'join: every node is initialized' 60 judge "not any(UNINITIALIZED in taints(n) for n in d[0]['items'])" "$nodes"
vm="named(d[1])[n['metadata']['name']]"
ok 'join: every node has the provider ID of its virtual machine' \
  judge "all(n['spec']['providerID'] == 'vsphere://' + $vm['status']['biosUUID'] for n in d[0]['items'])" "$nodes" "$vms"
ok 'join: every node shows exactly the address of its virtual machine' \
  judge "all(addresses(n) == [$vm['status']['network']['primaryIP4']] for n in d[0]['items'])" "$nodes" "$vms"
ok 'join: every node is in the zone of its virtual machine' \
  judge "all(labels(n)['topology.kubernetes.io/zone'] == $vm['status']['zone'] for n in d[0]['items'])" "$nodes" "$vms"
ok "join: the nodes are in $ZONES zones" \
  judge "len({labels(n)['topology.kubernetes.io/zone'] for n in d[0]['items']}) == $ZONES" "$nodes"
served

# ---- an address changes
address() { # MACHINE ADDRESS
  "$SIM" world event "{\"guest.ip.set\": {\"machine\": \"$1\", \"addresses\": [[\"$2\"]]}}" >/dev/null
}
address node-0001 10.77.0.1
ok 'address: the node shows it within two seconds after the virtual machine' \
  "$here/lag.py" "$dir/why" "$vms/node-0001" "$nodes/node-0001" 10.77.0.1 2

ok 'ledger: the provider has made one list and one watch' called '{"list virtualmachines": 1, "watch virtualmachines": 1}' supervisor

# ---- the token changes, and the old one is invalid from that moment; one machine is switched off, one deleted
token=$dir/mounts/etc/cloud/ccm-provider/token
first=$(cat "$token")
cp "$token" "$dir/first.token"
ok 'token: the sim replaces it' eval '"$SIM" world event "{\"supervisor.token.rotate\": {}}" >"$dir/why" 2>&1 && [ "$(cat "$token")" != "$first" ]'
ok 'power off: kubectl patches the virtual machine' kubectl patch vm node-0002 --type=merge -p '{"spec":{"powerState":"PoweredOff"}}'
ok 'delete: kubectl deletes a virtual machine, and waits until it is gone' kubectl delete vm node-0003 --timeout=60s
ok 'delete: its machine is gone too' judge "'node-0003' not in [m['name'] for m in d[0]['machines']]" "$world"
kubelet node-0002 Unknown
kubelet node-0003 Unknown
until_so 'power off: the node gets the shutdown taint' 120 judge "SHUTDOWN in taints(d[0])" "$nodes/node-0002"
until_so 'delete: the node of the deleted virtual machine is deleted' 120 judge "'node-0003' not in named(d[0])" "$nodes"
ok 'delete: no other node is deleted or tainted' \
  judge "len(d[0]['items']) == $NODES - 1 and [n['metadata']['name'] for n in d[0]['items'] if SHUTDOWN in taints(n)] == ['node-0002']" "$nodes"
ok 'power on: kubectl patches the virtual machine' kubectl patch vm node-0002 --type=merge -p '{"spec":{"powerState":"PoweredOn"}}'
ok 'power on: kubectl waits until the virtual machine is on' kubectl wait vm node-0002 --for=jsonpath='{.status.powerState}'=PoweredOn --timeout=60s
kubelet node-0002 True
until_so 'power on: the shutdown taint is removed' 150 judge "SHUTDOWN not in taints(d[0])" "$nodes/node-0002"

# ---- calls, end, and a second start
# The Supervisor refuses the first request with the old token, and other requests that the provider sends at the same moment.
calls refusals >"$dir/why" 2>&1
ok 'token: the provider never sends the old token after it has used the new one' \
  grep -qE '"refused": [1-9][0-9]*, "late": 0' "$dir/why"
# The provider lists once more before it deletes a node without a machine. Before that it may get this machine at each address sync;
# these calls are left out.
ok 'ledger: one more list, for the deleted node, and still one watch' called '{"list virtualmachines": 2, "watch virtualmachines": 1}' supervisor get 'list virtualmachines: 401'
# Each node that joins takes one write of its addresses and one of its other fields. Later one address changes, one taint is added and
# removed, and one node is deleted.
ok 'ledger: two writes for each node that joined, and one for each later change' \
  called "{\"delete nodes\": 1, \"patch nodes\": $((NODES + 2)), \"patch nodes/status\": $((NODES + 1))}" writes
ok 'SIGTERM ends the provider cleanly' stop
before=$(calls writes)
start
until_so 'restart: the provider is ready' 30 eval '[ "$(curl -ks "https://127.0.0.1:$port/readyz" | head -c 2)" = ok ]'
sleep 8
ok 'restart: the provider writes nothing to nodes' called "$before" writes
ok 'restart: SIGTERM ends the provider cleanly' stop
ok 'the log of the provider contains no token' [ "$(grep -cF -e "$first" -e "$(cat "$token")" "$dir/provider.log")" -eq 0 ]

cp "$token" "$dir/second.token" # because the sim removes its own file when it ends
secrets=(--secret "$dir/first.token" --secret "$dir/second.token")
verdict
