#!/usr/bin/env bash
# Runs govc against `sim serve`, and checks the output and the exit code of each command.
#
#   conformance/real-clients/govc.sh [GOVC [SIM]]
#
# GOVC defaults to the binary that conformance/peers/build.sh builds, SIM to target/release/sim.
set -uo pipefail

VMS=20
ZONES=3
DC=DC0
NAME='node-[0-9]+'          # pattern of the names of machines
CLUSTER="$DC"'_C[0-9]+'     # pattern of the names of clusters, one per zone
VM=${VM:-}                  # name of the machine to work on; if empty, the first one that `find` prints

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
GOVC=${1:-${GOVC_BIN:-}}
SIM=${2:-${SIM_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/sim}}
[ -n "$GOVC" ] || GOVC=$("$root/conformance/peers/build.sh" govc) || exit 1
[ -x "$SIM" ] || { echo "govc.sh: no sim at $SIM; build it: cargo build --release --locked -p vsphere-sim" >&2; exit 1; }
command -v python3 >/dev/null || { echo "govc.sh: python3 is needed to read JSON; apt-get install python3" >&2; exit 1; }

dir=$(mktemp -d)
sim=
cleanup() {
  [ -z "$sim" ] || kill -KILL "$sim" 2>/dev/null
  rm -rf "$dir"
}
trap cleanup EXIT

# ---- the sim, which must answer within ten seconds
for v in $(compgen -e | grep -E '^GOV(C|MOMI)_'); do unset "$v"; done
deadline() { # SECONDS COMMAND…: repeats the command until it succeeds; fails after SECONDS
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.05
  done
}
alive() { kill -0 "$sim" 2>/dev/null; }
gone() { ! alive; }
answers() { alive || return 0; [ -s "$dir/env" ] && (. "$dir/env" && "$GOVC" about) >/dev/null 2>"$dir/up"; }

"$SIM" serve --vms $VMS --zones $ZONES --env "$dir/env" --vcenter-listen 127.0.0.1:0 --cluster-listen 127.0.0.1:0 \
  --admin-listen 127.0.0.1:0 >"$dir/sim.out" 2>"$dir/sim.err" &
sim=$!
export GOVC_PERSIST_SESSION=false GOVMOMI_HOME=$dir/home
if ! deadline 10 answers || gone; then
  echo "FAIL sim serve does not answer govc about:"
  cat "$dir/up" "$dir/sim.out" "$dir/sim.err" 2>/dev/null
  exit 1
fi
. "$dir/env"

# ---- checks
passed=0 failed=0 out= err= code=0
pass() { passed=$((passed + 1)); printf 'ok   %s\n' "$1"; }
fail() { failed=$((failed + 1)); printf 'FAIL %s\n' "$1"; printf '%s\n' "code: $code" "$out" "$err" | head -n 25 | sed 's/^/     | /'; }
run() { # ARGUMENTS…: runs govc and sets out, err and code
  out=$(timeout 120 "$GOVC" "$@" 2>"$dir/err"); code=$?; err=$(cat "$dir/err")
}
ok() { # NAME TEST…: passes if govc ended with 0 and the test succeeds
  local name=$1
  shift
  if [ "$code" -eq 0 ] && "$@"; then pass "$name"; else fail "$name"; fi
}
lines() { # COUNT REGEX: succeeds if exactly so many lines of the output match completely
  [ "$(grep -cEx -- "$2" <<<"$out")" -eq "$1" ]
}
all() { # COUNT REGEX: succeeds if the output has exactly so many lines and all match
  lines "$1" "$2" && [ "$(grep -c '' <<<"$out")" -eq "$1" ]
}
is() { [ "$out" = "$1" ]; }
silent() { [ -z "$out" ] && [ -z "$err" ]; }
refused() { # NAME REGEX: passes if govc failed and its error output matches
  if [ "$code" -ne 0 ] && grep -qE -- "$2" <<<"$err"; then pass "$1"; else fail "$1"; fi
}
json() { # EXPRESSION: succeeds if the Python expression is true, with the JSON document of the output as d
  python3 -c 'import json, sys; d = json.loads(sys.argv[1]); sys.exit(not eval(sys.argv[2]))' "$out" "$1" 2>>"$dir/err"
}
field() { sed -nE "s/^ *$1: +(.*[^ ]) *$/\1/p" <<<"$out"; }
UUID='[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'

# ---- about
run about
ok 'about: a vCenter' lines 1 'API type: +VirtualCenter'
ok 'about: product' lines 1 'Product ID: +vpx'
ok 'about: instance UUID' lines 1 "UUID: +$UUID"
instance=$(field UUID)
run about -json
ok 'about -json: the same instance UUID' json "d['about']['instanceUuid'] == '$instance'"

# ---- find
run find / -type m
ok "find -type m: $VMS machines" all $VMS "/$DC/vm/(.*/)?$NAME"
ok 'find -type m: all paths are distinct' [ "$(sort -u <<<"$out" | grep -c '')" -eq $VMS ]
path=$(grep -E -- "/${VM:-.*}$" <<<"$out" | sort | head -n 1)
folder=${path%/*} name=${path##*/}
siblings=$(grep -cE "^$folder/[^/]+$" <<<"$out")
run find / -type m -name "$name"
ok 'find -name: one machine' is "$path"
run find / -type c
ok "find -type c: $ZONES clusters" all $ZONES "/$DC/host/(.*/)?$CLUSTER"
cluster=$(sort <<<"$out" | head -n 1)
run find / -type m -runtime.powerState poweredOn
ok 'find by property: every machine is powered on' all $VMS "/$DC/.*"
run find "/$DC" -type f -maxdepth 1
ok 'find -maxdepth: the four folders' lines 4 "/$DC/(vm|host|datastore|network)"

# ---- ls
run ls /
ok 'ls /' is "/$DC"
run ls -l /
ok 'ls -l /' is "/$DC (Datacenter)"
run ls -l "/$DC"
ok 'ls -l of a datacenter' all 4 "/$DC/(vm|host|datastore|network)/"
run ls -l "$folder"
ok 'ls -l of a folder of machines' lines "$siblings" "$folder/$NAME \(VirtualMachine\)"
run ls -l "$cluster"
ok 'ls -l of a cluster: hosts' grep -qE "^$cluster/[^/]+ \(HostSystem\)$" <<<"$out"
ok 'ls -l of a cluster: its root pool' lines 1 "$cluster/Resources \(ResourcePool\)"

# ---- vm.info
run vm.info "$name"
ok 'vm.info: name and path' [ "$(field Name) $(field Path)" = "$name $path" ]
ok 'vm.info: power state' [ "$(field 'Power state')" = poweredOn ]
ok 'vm.info: an address' lines 1 ' +IP address: +[0-9a-f.:]+'
ok 'vm.info: a host' grep -qvE '<unavailable>' <<<"$(field Host)"
uuid=$(field UUID) address=$(field 'IP address')
run vm.info -vm.uuid "$uuid"
ok 'vm.info by UUID' [ "$(field Name) $(field UUID)" = "$name $uuid" ]
run vm.info -json "$name"
ok 'vm.info -json: name and UUID agree in all fields' json "(lambda v: len(d['virtualMachines']) == 1 and v['name'] == '$name' and v['config']['uuid'] == v['summary']['config']['uuid'] == '$uuid')(d['virtualMachines'][0])"
ok 'vm.info -json: the guest has the same address' json "d['virtualMachines'][0]['guest']['ipAddress'] == '$address'"
second=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["virtualMachines"][0]["config"]["instanceUuid"])' "$out")
ref=$(python3 -c 'import json, sys; r = json.loads(sys.argv[1])["virtualMachines"][0]["self"]; print(r["type"] + ":" + r["value"])' "$out")
run vm.info -vm.uuid "$second"
ok 'vm.info by instance UUID' [ "$(field Name)" = "$name" ]
run vm.info '*'
ok 'vm.info of all' lines $VMS "Name: +$NAME"
run vm.info -vm.uuid 00000000-0000-4000-8000-000000000000
refused 'vm.info by an unknown UUID' 'no such VM'

# ---- vm.power
run vm.power -off "$name"
ok 'vm.power -off' is "Powering off $ref... OK"
run object.collect -s "$path" runtime.powerState
ok 'vm.power -off: the machine is off' is poweredOff
run find / -type m -runtime.powerState poweredOff
ok 'vm.power -off: no other machine is off' is "$path"
run vm.power -off "$name"
refused 'vm.power -off again' 'InvalidPowerState|current state \(Powered off\)'
run vm.power -on "$name"
ok 'vm.power -on' is "Powering on $ref... OK"
run vm.ip -wait 110s "$name"
ok 'vm.ip: the guest comes back with its address' is "$address"

# ---- tags
run tags.category.create -d 'made by a check' govc-check
ok 'tags.category.create' all 1 "urn:vmomi:InventoryServiceCategory:$UUID:GLOBAL"
run tags.category.ls
ok 'tags.category.ls' lines 1 'govc-check'
run tags.category.info govc-check
ok 'tags.category.info' [ "$(field Description) $(field Cardinality)" = 'made by a check SINGLE' ]
run tags.category.create govc-check
refused 'tags.category.create of a name that is taken' 'already|exists|400'
run tags.create -c govc-check -d one left
ok 'tags.create' all 1 "urn:vmomi:InventoryServiceTag:$UUID:GLOBAL"
run tags.create -c govc-check right
run tags.ls -c govc-check
ok 'tags.ls' all 2 '(left|right) +govc-check'
run tags.ls -json -c govc-check
ok 'tags.ls -json' json "sorted(t['name'] for t in d) == ['left', 'right']"
run tags.info -c govc-check left
ok 'tags.info' [ "$(field Description) $(field Category)" = 'one govc-check' ]
run tags.attach -c govc-check left "$path"
ok 'tags.attach' silent
run tags.attach -c govc-check right "$path"
refused 'tags.attach: a second tag of a category that allows one' '.'
run tags.attached.ls left
ok 'tags.attached.ls: the machine' is "$ref"
run tags.attached.ls -r "$path"
ok 'tags.attached.ls -r: the tag' lines 1 left
run tags.detach -c govc-check left "$path"
ok 'tags.detach' silent
run tags.attached.ls left
ok 'tags.detach: nothing is attached' is ''
run tags.rm -c govc-check left
ok 'tags.rm' silent
run tags.category.rm -f govc-check
ok 'tags.category.rm' silent
run tags.category.ls
ok 'tags.category.rm: the category is gone' lines 0 'govc-check'

# ---- object.collect
run object.collect "$path" name config.uuid runtime.powerState
ok 'object.collect: name' lines 1 "name +string +$name"
ok 'object.collect: UUID' lines 1 "config.uuid +string +$uuid"
ok 'object.collect: an enumeration' lines 1 'runtime.powerState +types.VirtualMachinePowerState +poweredOn'
run object.collect -s -type m / name
ok 'object.collect -type m: through a view' all $VMS "$NAME"
run object.collect -s - content.about.instanceUuid
ok 'object.collect of the service instance' is "$instance"
run object.collect -s "$path" no.such.property
refused 'object.collect of a property that does not exist' "InvalidProperty|property 'no.such.property' does not exist"
timeout 60 "$GOVC" object.collect -n 1 "$path" runtime.powerState >"$dir/changes" 2>"$dir/err" &
waiting=$!
deadline 20 grep -q poweredOn "$dir/changes"
"$GOVC" vm.power -off "$name" >/dev/null
wait $waiting
code=$? out=$(cat "$dir/changes") err=$(cat "$dir/err")
ok 'object.collect -n 1: reports a change' [ "$(awk '{print $3}' <<<"$out" | paste -sd' ')" = 'poweredOn poweredOff' ]

# ---- vm.create, vm.change, vm.destroy
run find / -type n
network=$(head -n 1 <<<"$out")
run find / -type s
datastore=$(head -n 1 <<<"$out")
run vm.create -on=false -pool "$cluster/Resources" -net "$network" -ds "$datastore" -c 2 -m 2048 -g ubuntu64Guest made-by-a-check
ok 'vm.create' silent
run vm.change -vm made-by-a-check -c 4 -e guestinfo.check=yes
ok 'vm.change' silent
run vm.info -e made-by-a-check
ok 'vm.change: processors' lines 1 ' +CPU: +4 vCPU\(s\)'
ok 'vm.change: extra configuration' lines 1 ' +guestinfo.check: +yes'
run vm.destroy made-by-a-check
ok 'vm.destroy' silent
run find / -type m
ok 'vm.destroy: the machine is gone' all $VMS "/$DC/vm/(.*/)?$NAME"

# ---- sessions and trust
run session.ls
user='VSPHERE\.LOCAL\\[Aa]dministrator' # as vCenter shows administrator@vsphere.local
ok 'session.ls: all earlier commands have logged out' lines 1 ".* ($GOVC_USERNAME|$user) .* \. .*"
GOVC_PASSWORD=wrong run about
refused 'a wrong password' 'incorrect user name or password|InvalidLogin'
GOVC_TLS_CA_CERTS='' run about
refused 'a certificate of an unknown authority' 'x509|certificate'
GOVC_PERSIST_SESSION=true run about
GOVC_PERSIST_SESSION=true run ls /
ok 'a kept session is used again' is "/$DC"
GOVC_PERSIST_SESSION=true run session.logout
ok 'session.logout' silent

# ---- the end of the sim
kill -TERM "$sim"
code=0 out=$(tail -n 5 "$dir/sim.out") err=
if deadline 10 gone; then wait "$sim"; code=$?; else code=still-running; fi
err=$(tail -n 10 "$dir/sim.err")
if [ "$code" = 0 ]; then pass 'SIGTERM ends the sim cleanly'; sim=; else fail 'SIGTERM ends the sim cleanly'; fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
