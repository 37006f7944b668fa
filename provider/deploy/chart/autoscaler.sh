#!/usr/bin/env bash
# Tests permissions and certificates of the autoscaler with a real kube-apiserver. test.sh runs it.
#
#   provider/deploy/chart/autoscaler.sh SCRIPT    needs KUBE_SERVER and KUBE_TOKEN, as conformance/peers/cluster.sh sets them
#
# It creates the accounts and roles of ../autoscaler.yaml and ../autoscaler-supervisor-role.yaml, and asks, for
# each line of tests/autoscaler.can-i, whether the account may do that. Then it runs SCRIPT, the text of the ConfigMap for the Job, with the
# variables of the Job and a token of the Job's account. With PROVIDER=FILE that program has to serve with the certificates.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
[ $# -eq 1 ] || { echo "usage: autoscaler.sh SCRIPT" >&2; exit 2; }
script=$1
scratch=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  "${client[@]}" delete --ignore-not-found --wait=false -f "$scratch/roles.yaml" >/dev/null 2>&1 || true
  "${client[@]}" delete --ignore-not-found -n kube-system secret "${names[@]}" >/dev/null 2>&1 || true
  rm -rf "$scratch"
}
names=(vsphere-autoscaler-server-tls vsphere-autoscaler-client-tls)
client=("$("$root/conformance/peers/build.sh" kubectl 2>/dev/null)" --cache-dir "$scratch/cache" --server "$KUBE_SERVER" --token "$KUBE_TOKEN"
  --insecure-skip-tls-verify)
trap finish EXIT
n=0 failed=0
fail() { failed=$((failed + 1)); printf 'FAIL %s\n' "$1"; }
check() { # CLAIM COMMAND…
  n=$((n + 1))
  "${@:2}" >"$scratch/said" 2>&1 </dev/null || { fail "$1"; sed 's/^/     /' "$scratch/said"; }
}

# Accounts and roles.
"${client[@]}" create namespace workloads --dry-run=client -o yaml | "${client[@]}" apply -f - >/dev/null
awk 'BEGIN { RS = "---\n"; ORS = "---\n" } /(^|\n)kind: (ServiceAccount|(Cluster)?Role(Binding)?)\n/' \
  "$here/../autoscaler.yaml" "$here/../autoscaler-supervisor-role.yaml" "$here/../autoscaler-nodegroups-role.yaml" >"$scratch/roles.yaml"
"${client[@]}" apply -f "$scratch/roles.yaml" >/dev/null
"${client[@]}" create --dry-run=server --validate=strict -f <(awk 'BEGIN { RS = "---\n" } /\nkind: Secret\n/' "$here/../autoscaler-supervisor-role.yaml") \
  >"$scratch/said" 2>&1 || { fail "autoscaler-supervisor-role.yaml: the API server refuses the Secret"; cat "$scratch/said"; }
review() { # ACCOUNT VERB RESOURCE NAMESPACE: prints the question whether the account may do that, as `kubectl auth can-i` asks it
  local resource=${3%%/*} name='' group='' subresource='' namespace=${4#\*}
  [ "$resource" = "$3" ] || name=${3#*/}
  case $resource in
    *:*) subresource=${resource#*:} subresource=${subresource%%.*} resource=${resource/":$subresource"/} ;;
  esac
  [ "${resource#*.}" = "$resource" ] || group=${resource#*.}
  printf '{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "system:serviceaccount:%s", "groups": [%s],\n' \
    "$1" "\"system:serviceaccounts\", \"system:serviceaccounts:${1%:*}\", \"system:authenticated\""
  printf ' "resourceAttributes": {"verb": "%s", "group": "%s", "resource": "%s", "subresource": "%s", "name": "%s", "namespace": "%s"}}}\n---\n' \
    "$2" "$group" "${resource%%.*}" "$subresource" "$name" "$namespace"
}
while read -r expected account verbs resources namespace; do
  case $expected in '' | \#*) continue ;; esac
  for verb in ${verbs//,/ }; do
    for resource in ${resources//,/ }; do
      review "$account" "$verb" "$resource" "$namespace" >>"$scratch/questions"
      echo "$expected: $account $verb $resource in $namespace" >>"$scratch/expected"
    done
  done
done <"$here/tests/autoscaler.can-i"
"${client[@]}" create -f "$scratch/questions" -o jsonpath='{.status.allowed}{"\n"}' | sed 's/true/yes/; s/false/no/' >"$scratch/answers"
n=$(wc -l <"$scratch/expected")
paste -d: "$scratch/answers" <(cut -d: -f2- "$scratch/expected") | diff -U0 "$scratch/expected" - | sed -E '/^(---|\+\+\+|@@)/d' >"$scratch/said" || true
[ ! -s "$scratch/said" ] || { fail "tests/autoscaler.can-i: expected (-), and the API server's answers (+)"; cat "$scratch/said"; }
asked=$n

# Certificates. The API server's own certificate is in the place where a pod finds the cluster's authorities.
address=${KUBE_SERVER#https://}
mkdir "$scratch/account"
openssl s_client -connect "$address" -showcerts </dev/null 2>/dev/null | sed -n '/BEGIN CERT/,/END CERT/p' >"$scratch/account/ca.crt"
printf kube-system >"$scratch/account/namespace"
token() { "${client[@]}" create token -n kube-system "$1" >"$scratch/account/token"; } # ACCOUNT
mapfile -t environment < <(sed -nE 's/^ *- \{name: ([A-Z_]+), value: "?([^"]*)"?\}$/\1=\2/p' "$here/../autoscaler.yaml")
make() { # VARIABLES…: runs the script as the Job does
  env -i PATH="$PATH" TMPDIR="$scratch" KUBERNETES_SERVICE_HOST="${address%:*}" KUBERNETES_SERVICE_PORT="${address##*:}" \
    SERVICE_ACCOUNT_DIR="$scratch/account" "${environment[@]}" "$@" sh "$script" >"$scratch/made" 2>&1
}
versions() { "${client[@]}" get secret -n kube-system "${names[@]}" -o jsonpath='{.items[*].metadata.resourceVersion}'; }
fetch() { # writes the files of both Secrets to $scratch/server and $scratch/client
  local side key
  for side in server client; do
    mkdir -p "$scratch/$side"
    for key in tls.crt tls.key ca.crt; do
      "${client[@]}" get secret -n kube-system "vsphere-autoscaler-$side-tls" -o jsonpath="{.data.${key/./\\.}}" | base64 -d >"$scratch/$side/$key"
    done
  done
}
chain() { # both certificates chain to the authority of the other side, and each is good only for its purpose and host
  fetch
  local host=vsphere-autoscaler.kube-system.svc verify=(openssl verify -no-CApath)
  "${verify[@]}" -CAfile "$scratch/client/ca.crt" -purpose sslserver -verify_hostname "$host" "$scratch/server/tls.crt" &&
    "${verify[@]}" -CAfile "$scratch/server/ca.crt" -purpose sslclient "$scratch/client/tls.crt" &&
    ! "${verify[@]}" -CAfile "$scratch/client/ca.crt" -purpose sslclient "$scratch/server/tls.crt" &&
    ! "${verify[@]}" -CAfile "$scratch/server/ca.crt" -purpose sslserver "$scratch/client/tls.crt" &&
    ! "${verify[@]}" -CAfile "$scratch/client/ca.crt" -verify_hostname other.kube-system.svc "$scratch/server/tls.crt" &&
    [ "$(openssl x509 -noout -ext subjectAltName -in "$scratch/server/tls.crt" | tail -n 1 | tr -d ' ')" = "DNS:$host" ] &&
    openssl x509 -noout -checkend $((3649 * 86400)) -in "$scratch/server/tls.crt" &&
    ! grep -rq "PRIVATE KEY" "$scratch/server/ca.crt" "$scratch/client/ca.crt"
}
succeeds() { make "${@:2}" && grep -q "$1" "$scratch/made" || { cat "$scratch/made"; return 1; }; } # TEXT VARIABLES…
fails() { ! make "${@:2}" && grep -q "$1" "$scratch/made" || { cat "$scratch/made"; return 1; }; }   # TEXT VARIABLES…
same() { [ "$(versions)" = "$before" ]; }
both_differ() { # neither Secret has its version of before
  local now
  now=$(versions)
  [ "${now% *}" != "${before% *}" ] && [ "${now#* }" != "${before#* }" ]
}
check "the Job has its variables" [ "${#environment[@]}" = 5 ]
token vsphere-autoscaler
before=$(versions 2>/dev/null) || true
check "an account without the Job's role cannot make certificates" fails 'cannot read the Secret .*: HTTP 403: .*is forbidden'
token vsphere-autoscaler-certificates
check "the first run makes both Secrets, with the Job's role only" succeeds 'wrote the Secret vsphere-autoscaler-client-tls'
check "the certificates chain and name the Service" chain
before=$(versions)
check "the second run finds them valid" succeeds 'are valid; changed nothing'
check "the second run changes nothing" same
check "a run for another Service finds the certificate wrong" succeeds 'would refuse the server: .*ostname mismatch' SERVER_HOST=other.kube-system.svc
check "a run for another Service replaces both" both_differ
check "a run for the right Service makes them right again" succeeds 'wrote the Secret'
check "these certificates chain" chain
before=$(versions)
check "certificates that expire soon are renewed" succeeds 'certificate has expired; making new' RENEW_BEFORE_DAYS=3651
check "the renewal replaces both" both_differ
check "the renewed certificates chain" chain
"${client[@]}" delete secret -n kube-system "${names[1]}" >/dev/null
check "a lost Secret is made again" succeeds "the client's Secret does not exist; making new"
check "both belong together then" chain
"${client[@]}" annotate secret -n kube-system "${names[@]}" vsphere.cloud-provider/made-by- >/dev/null
before=$(versions)
check "valid Secrets of another origin are left alone" succeeds 'are valid; changed nothing'
check "a Secret of another origin is never replaced" fails "the Secret ${names[0]} was not made by this script, so it stays" RENEW_BEFORE_DAYS=3651
check "neither run changes them" same
"${client[@]}" annotate secret -n kube-system "${names[@]}" vsphere.cloud-provider/made-by=vsphere-autoscaler-certificates >/dev/null
"${client[@]}" patch secret -n kube-system "${names[0]}" -p "{\"data\": {\"tls.key\": \"$(base64 -w0 <"$scratch/client/tls.key")\"}}" >/dev/null
check "a key of another certificate is noticed, and a hand's change is not overwritten" \
  fails 'HTTP 409: Apply failed with 1 conflict.* someone has changed the Secret'
"${client[@]}" delete secret -n kube-system "${names[@]}" >/dev/null
check "after the Secrets are deleted, a run makes new ones" succeeds 'wrote the Secret'
check "the new ones chain" chain
check "the script leaves no file" [ -z "$(find "$scratch" -mindepth 1 -maxdepth 1 -name 'tmp.*')" ]

if [ -n "${PROVIDER:-}" ]; then
  mkdir "$scratch/tls"
  cp "$scratch"/server/* "$scratch/tls/"
  echo 'groups: [{name: workers, max: 1, machine: {className: a, imageName: b, storageClass: c, bootstrap: {secretName: d}}}]' >"$scratch/groups.yaml"
  cat >"$scratch/kubeconfig" <<KUBECONFIG
{"clusters": [{"name": "it", "cluster": {"server": "$KUBE_SERVER"}}], "contexts": [{"name": "it", "context": {"cluster": "it", "namespace": "it"}}],
 "current-context": "it"}
KUBECONFIG
  port=$((20000 + RANDOM % 12000))
  "$PROVIDER" autoscaler --groups="$scratch/groups.yaml" --supervisor-kubeconfig="$scratch/kubeconfig" --listen="127.0.0.1:$port" \
    --tls-cert-file="$scratch/tls/tls.crt" --tls-private-key-file="$scratch/tls/tls.key" --client-ca-file="$scratch/tls/ca.crt" >"$scratch/log" 2>&1 &
  server=$!
  for _ in $(seq 100); do if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; else sleep 0.1; fi; done
  serves() { grep -q 'with TLS' "$scratch/log" || { cat "$scratch/log"; return 1; }; }
  check "the server serves with the certificates" serves
  shake() { # FILES OF A CLIENT…: true if server and client accept each other, also after the handshake of TLS 1.3
    (sleep 1) | openssl s_client -connect "127.0.0.1:$port" -servername vsphere-autoscaler.kube-system.svc -verify_hostname vsphere-autoscaler.kube-system.svc \
      -CAfile "$scratch/client/ca.crt" -no-CApath -alpn h2 -verify_return_error "$@" >"$scratch/shaken" 2>&1
    cat "$scratch/shaken"
    grep -q 'Verify return code: 0 (ok)' "$scratch/shaken" && grep -q 'ALPN protocol: h2' "$scratch/shaken" && ! grep -qi alert "$scratch/shaken"
  }
  check "the server accepts the autoscaler's certificate" shake -cert "$scratch/client/tls.crt" -key "$scratch/client/tls.key"
  refuses() { ! shake "$@" && grep -qi 'alert' "$scratch/shaken"; }
  check "the server refuses a client without certificate" refuses
  check "the server refuses its own certificate as a client's" refuses -cert "$scratch/server/tls.crt" -key "$scratch/server/tls.key"
fi
echo "autoscaler: $asked questions about permissions, $((n - asked)) checks of certificates: $failed failed"
[ "$failed" -eq 0 ]
