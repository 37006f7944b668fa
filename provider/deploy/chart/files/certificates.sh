#!/bin/sh
# Makes the certificates with which the autoscaler and its server authenticate each other, and stores them in two Secrets.
#
# Both certificates come from one new authority, whose key the script deletes, so nothing else can get a certificate of it. A pair
# of Secrets that works for RENEW_BEFORE_DAYS more is left as it is, whoever made it. Otherwise the script makes a new pair, but
# it replaces only Secrets that it has made.
#
# Reads SERVER_HOST, SERVER_SECRET, CLIENT_SECRET, DAYS and RENEW_BEFORE_DAYS from the environment, and the API server and the
# account of the pod from the places where Kubernetes puts them. Needs openssl 3 and curl.
set -eu
umask 077
mark=vsphere.cloud-provider/made-by
account=${SERVICE_ACCOUNT_DIR:-/var/run/secrets/kubernetes.io/serviceaccount}
namespace=$(cat "$account/namespace")
case $KUBERNETES_SERVICE_HOST in *:*) host="[$KUBERNETES_SERVICE_HOST]" ;; *) host=$KUBERNETES_SERVICE_HOST ;; esac
secrets=https://$host:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$namespace/secrets
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

say() { echo "certificates: $*"; }
die() { echo "certificates: $1; $2" >&2; exit 1; }

request() { # METHOD SECRET [FILE]: sends a request; prints the status of the answer, whose body is then in $dir/answer
  printf 'Authorization: Bearer %s\n' "$(cat "$account/token")" >"$dir/headers"
  code=$(curl -sS --max-time 30 --retry 5 --retry-connrefused --cacert "$account/ca.crt" -H "@$dir/headers" -X "$1" -o "$dir/answer" \
    -w '%{http_code}' ${3:+-H 'Content-Type: application/apply-patch+yaml' --data-binary "@$3"} \
    "$secrets/$2${3:+?fieldManager=vsphere-autoscaler-certificates}") || die "the API server does not answer" "see the error of curl above"
  echo "$code"
}
die_with_answer() { # ACT SECRET CODE: ends the script with the message of the API server
  message=$(sed -nE 's/.*"message": ?"(([^"\\]|\\.)*)".*/\1/p' "$dir/answer" | head -n 1)
  case $3 in
    403) remedy="the account of this pod needs get, create and patch of both Secrets" ;;
    409) remedy="someone has changed the Secret; delete it if it is not in use" ;;
    *) remedy="correct what the API server names" ;;
  esac
  die "cannot $1 the Secret $2: HTTP $3: $message" "$remedy"
}

read_secret() { # SECRET SIDE: reads the Secret into the folder $dir/SIDE, which has `absent` if it does not exist
  mkdir "$dir/$2"
  code=$(request GET "$1")
  case $code in
    200) ;;
    404) : >"$dir/$2/absent"; return ;;
    *) die_with_answer read "$1" "$code" ;;
  esac
  for key in tls.crt tls.key ca.crt; do
    sed -nE "s/.*\"$key\": ?\"([A-Za-z0-9+\/=]*)\".*/\1/p" "$dir/answer" | openssl base64 -d -A >"$dir/$2/$key"
  done
  if grep -qE "\"$mark\": ?\"" "$dir/answer"; then : >"$dir/$2/ours"; fi
}

pair_is_valid() { # true if server and client accept each other; else prints the reason
  for side in server client; do
    if [ -e "$dir/$side/absent" ]; then echo "the $side's Secret does not exist"; return 1; fi
    for file in tls.crt tls.key ca.crt; do
      [ -s "$dir/$side/$file" ] || { echo "the $side's Secret has no $file"; return 1; }
    done
    [ "$(openssl x509 -noout -pubkey -in "$dir/$side/tls.crt" 2>&1)" = "$(openssl pkey -pubout -in "$dir/$side/tls.key" 2>&1)" ] ||
      { echo "the $side's key is not that of its certificate"; return 1; }
  done
  openssl x509 -noout -ext subjectAltName -in "$dir/server/tls.crt" 2>/dev/null | grep -q DNS: ||
    { echo "the server's certificate names no host"; return 1; }
  now=$(date +%s)
  for time in "$now" $((now + RENEW_BEFORE_DAYS * 86400)); do
    openssl verify -attime "$time" -purpose sslserver -verify_hostname "$SERVER_HOST" -CAfile "$dir/client/ca.crt" -no-CApath \
      "$dir/server/tls.crt" >"$dir/why" 2>&1 || { echo "the autoscaler would refuse the server: $(verify_error)"; return 1; }
    openssl verify -attime "$time" -purpose sslclient -CAfile "$dir/server/ca.crt" -no-CApath \
      "$dir/client/tls.crt" >"$dir/why" 2>&1 || { echo "the server would refuse the autoscaler: $(verify_error)"; return 1; }
  done
}
verify_error() { sed -nE 's/^error [0-9]+ at [0-9]+ depth lookup: ?//p' "$dir/why" | head -n 1; }

make() { # makes new certificates in $dir/new-server and $dir/new-client
  cat >"$dir/config" <<CONFIG
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:$SERVER_HOST
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectAltName = DNS:cluster-autoscaler
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
CONFIG
  key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
  # The number tells this authority from earlier ones.
  openssl req -x509 -config "$dir/config" -extensions authority $key -keyout "$dir/ca.key" -out "$dir/ca.crt" -days "$DAYS" \
    -subj "/CN=vsphere-autoscaler $(openssl rand -hex 4)" 2>"$dir/why" || die "openssl fails: $(cat "$dir/why")" "give the Job an image with openssl 3"
  for side in server client; do
    new=$dir/new-$side
    mkdir "$new"
    openssl req -new -config "$dir/config" $key -keyout "$new/tls.key" -out "$dir/csr" -subj "/CN=vsphere-autoscaler-$side" 2>"$dir/why" &&
      openssl x509 -req -in "$dir/csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -extfile "$dir/config" -extensions "$side" \
        -days "$DAYS" -out "$new/tls.crt" 2>"$dir/why" || die "openssl fails: $(cat "$dir/why")" "give the Job an image with openssl 3"
    cp "$dir/ca.crt" "$new/ca.crt"
  done
  rm "$dir/ca.key"
}

store() { # SECRET SIDE
  cat >"$dir/body" <<BODY
{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
 "metadata": {"name": "$1", "namespace": "$namespace", "annotations": {"$mark": "vsphere-autoscaler-certificates"}},
 "data": {"tls.crt": "$(openssl base64 -A -in "$dir/new-$2/tls.crt")", "tls.key": "$(openssl base64 -A -in "$dir/new-$2/tls.key")",
          "ca.crt": "$(openssl base64 -A -in "$dir/new-$2/ca.crt")"}}
BODY
  code=$(request PATCH "$1" "$dir/body")
  case $code in 20[01]) say "wrote the Secret $1" ;; *) die_with_answer write "$1" "$code" ;; esac
}

for program in openssl curl; do
  command -v "$program" >/dev/null || die "$program is missing" "give the Job an image with openssl 3 and curl (autoscaler.tls.job.image)"
done
read_secret "$SERVER_SECRET" server
read_secret "$CLIENT_SECRET" client
if reason=$(pair_is_valid); then
  say "the Secrets $SERVER_SECRET and $CLIENT_SECRET are valid; changed nothing"
  exit 0
fi
say "$reason; making new certificates"
for side in server client; do
  [ -e "$dir/$side/absent" ] || [ -e "$dir/$side/ours" ] || {
    [ "$side" = server ] && secret=$SERVER_SECRET || secret=$CLIENT_SECRET
    die "the Secret $secret was not made by this script, so it stays" "correct it or delete it, or name another in autoscaler.tls.${side}Secret"
  }
done
make
store "$SERVER_SECRET" server
store "$CLIENT_SECRET" client
[ -e "$dir/client/absent" ] ||
  say "the autoscaler reads its certificate only at start; restart it: kubectl -n $namespace rollout restart deployment cluster-autoscaler"
