#!/usr/bin/env bash
# Plays the steps in the comment of compose.yaml: start, health, access from this machine and from another service, stop.
#
#   conformance/real-clients/compose.sh [IMAGE]
#
# Uses `docker compose`, or else the older docker-compose. Uses free ports and its own project name, so that it does not
# disturb other sims.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit
if docker compose version >/dev/null 2>&1; then compose=(docker compose); else compose=(docker-compose); fi
"${compose[@]}" version --short >/dev/null || { echo 'docker compose is missing; apt-get install docker-compose' >&2; exit 1; }
free_port() { "$root/conformance/real-clients/ports.py"; }
[ $# -eq 0 ] || export SIM_IMAGE=$1
export COMPOSE_PROJECT_NAME=sim-compose-$$ SIM_ADMIN_TOKEN=mine-$$ SIM_FLAGS='--vms 3 --zones 2'
export SIM_VCENTER_PORT SIM_CLUSTER_PORT SIM_ADMIN_PORT
SIM_VCENTER_PORT=$(free_port) SIM_CLUSTER_PORT=$(free_port) SIM_ADMIN_PORT=$(free_port)
dir=$(mktemp -d)
down() { "${compose[@]}" down --timeout 3 >"$dir/down" 2>&1; }
trap 'down; rm -rf "$dir"' EXIT

. "$root/conformance/real-clients/counted.sh"
healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$("${compose[@]}" ps -q sim)")" = healthy ]; }
admin() { curl -fsS -H "Authorization: Bearer $SIM_ADMIN_TOKEN" "http://127.0.0.1:$SIM_ADMIN_PORT$1"; }
told() { python3 -c "import json, sys; print(json.load(sys.stdin)$1, end='')"; } # EXPRESSION: prints a part of the JSON on stdin
nodes() { # COUNT: succeeds if the cluster has so many nodes
  local n
  n=$(curl -fsS --cacert "$dir/ca.pem" -H "Authorization: Bearer $(told '["cluster"]["token"]' <"$dir/told")" \
    "https://127.0.0.1:$SIM_CLUSTER_PORT/api/v1/nodes" | told '["items"].__len__()')
  echo "nodes: $n"
  [ "$n" = "$1" ]
}

ok 'up' "${compose[@]}" up -d
for _ in $(seq 100); do ! healthy 2>/dev/null || break; sleep 0.2; done
ok 'healthy' healthy
ok 'the admin port shows the endpoints to a client with the token' eval 'admin /endpoints >"$dir/told"'
ok 'the admin port refuses a client without the token' eval '! curl -fs "http://127.0.0.1:$SIM_ADMIN_PORT/endpoints"'
told '["certificateAuthority"]' <"$dir/told" >"$dir/ca.pem"
ok 'the vCenter answers with a certificate that the CA signs' curl -fsS --cacert "$dir/ca.pem" "https://127.0.0.1:$SIM_VCENTER_PORT/sdk/vimServiceVersions.xml"
ok 'the certificate is valid for the name `sim`, which other services use' \
  curl -fsS --cacert "$dir/ca.pem" --resolve "sim:$SIM_VCENTER_PORT:127.0.0.1" "https://sim:$SIM_VCENTER_PORT/sdk/vimServiceVersions.xml"
ok 'the cluster has as many nodes as the flags set' nodes 3
network=${COMPOSE_PROJECT_NAME}_default
ok 'another service reaches the sim by its name' docker run --rm --network "$network" "${SIM_IMAGE:-vsphere-lab/sim:0.1.0}" health --admin http://sim:8900
ok 'exec: sim fault add succeeds' "${compose[@]}" exec -T sim /sim fault add '{"id": "busy", "match": {"op": "@login"}, "do": [{"status": {"code": 503}}]}'
ok 'exec: the admin port shows the added rule' eval 'admin /faults | grep -q busy'
ok 'down' down
ok 'down removes every container' [ -z "$(docker ps -aq --filter label=com.docker.compose.project="$COMPOSE_PROJECT_NAME")" ]

verdict
