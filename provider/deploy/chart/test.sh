#!/usr/bin/env bash
# Compares the output of the chart with the stored output: for each tests/NAME.values.yaml the manifests in tests/NAME.rendered.yaml or the
# refusal in tests/NAME.refused, and the manifests that render.sh writes, ../vcenter.yaml, ../supervisor.yaml and ../autoscaler.yaml.
#
#   provider/deploy/chart/test.sh             prints the differences, and exits with 1 if there are any
#   provider/deploy/chart/test.sh --update    stores the current output; look at the difference before you commit it
#
# A values file that begins with `# namespace: NAME.` is rendered for that namespace, others for kube-system. One that begins with
# `# kubernetes: VERSION.` is rendered for that version of Kubernetes. If KUBE_SERVER and KUBE_TOKEN are set, as
# conformance/peers/cluster.sh COMMAND sets them, that API server also has to accept every manifest, and autoscaler.sh tests the
# permissions and certificates of the autoscaler there. The kinds of cert-manager are those of tests/cert-manager.crds.yaml. With
# PROVIDER=FILE the provider (that program) has to accept every configuration and all of its keys, and every file of groups.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
case ${1:-} in
  '') update= ;;
  --update) update=1 ;;
  *) echo "usage: test.sh [--update]" >&2; exit 2 ;;
esac
helm=$("$root/conformance/peers/build.sh" helm)
[ -z "${KUBE_SERVER:-}" ] || kubectl=$("$root/conformance/peers/build.sh" kubectl)
version=$(sed -nE 's,^require k8s.io/kubernetes (v.*),\1,p' "$root/conformance/peers/kubernetes/go.mod")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
n=0 failed=0
fail() { failed=$((failed + 1)); printf 'FAIL %s\n' "$1"; }
text_of() { # MANIFESTS NAMES: prints the file in each ConfigMap whose name matches the expression NAMES
  awk -v names="^($2)\$" '/^---/ { config = text = 0 } /^kind: ConfigMap/ { config = 1 } config && /^  name: / && $2 !~ names { config = 0 }
    text { sub(/^    /, ""); print } config && /^  [^ ]*: \|$/ { text = 1 }' "$1"
}
read_by_provider() { # CONFIGURATION: true if the provider accepts it, and then fails only because it runs outside a cluster
  # One of the values files names a certificate file, which the provider reads too. A new certificate takes its place.
  [ -s "$scratch/ca.pem" ] ||
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$scratch/ca.key" -out "$scratch/ca.pem" -subj /CN=chart -days 1 2>/dev/null
  sed -i "s,/etc/certificates/ca.pem,$scratch/ca.pem," "$1"
  env -u KUBERNETES_SERVICE_HOST timeout 20 "$PROVIDER" --cloud-provider=vsphere --cloud-config="$1" --strict-config --secure-port=0 \
    >"$scratch/said" 2>&1 || true
  grep -q '^provider: cannot find the configuration of a cluster around this process' "$scratch/said"
}
groups_read() { # GROUPS: true if the provider accepts the file, and then only waits for a Supervisor or a vCenter
  cat >"$scratch/kubeconfig" <<'KUBECONFIG'
{"clusters": [{"name": "it", "cluster": {"server": "https://127.0.0.1:9"}}], "contexts": [{"name": "it", "context": {"cluster": "it", "namespace": "it"}}],
 "current-context": "it"}
KUBECONFIG
  local backend=(--supervisor-kubeconfig="$scratch/kubeconfig")
  if grep -q ' clone:$' "$1"; then
    rm -f "$scratch/journal"
    echo '{"global": {"user": "it", "password": "it", "insecureFlag": true}, "vcenter": {"127.0.0.1": {"server": "127.0.0.1", "port": 9}}}' >"$scratch/vcenter.conf"
    backend=(--backend=vcenter --cloud-config="$scratch/vcenter.conf" --journal="$scratch/journal")
  fi
  timeout 20 "$PROVIDER" autoscaler --groups="$1" "${backend[@]}" \
    --workload-kubeconfig="$scratch/kubeconfig" --listen=127.0.0.1:0 >"$scratch/said" 2>&1 &
  local server=$! n
  for n in $(seq 100); do
    if grep -q 'serving autoscalers' "$scratch/said" || ! kill -0 "$server" 2>/dev/null; then break; fi
    sleep 0.1
  done
  kill "$server" 2>/dev/null || true
  wait "$server" || true
  grep -q 'serving autoscalers' "$scratch/said" && ! grep -q 'ignoring a group' "$scratch/said"
}
judged() { # MANIFESTS NAMESPACE: true if a real API server accepts them with every field, and only the host network violates the level `restricted`
  local client=("$kubectl" --server "$KUBE_SERVER" --token "$KUBE_TOKEN" --insecure-skip-tls-verify) warned
  local one
  for one in "$2" $(sed -nE 's/^  namespace: "?([a-z0-9-]+)"?$/\1/p' "$1" | sort -u); do "${client[@]}" create namespace "$one" >/dev/null 2>&1 || true; done
  "${client[@]}" label --overwrite namespace "$2" pod-security.kubernetes.io/warn=restricted >/dev/null
  "${client[@]}" create --dry-run=server --validate=strict -f "$1" 2>&1 || return
  warned=$("${client[@]}" create --dry-run=server -f "$1" 2>&1 >/dev/null | sed -nE 's/^Warning: would violate PodSecurity "restricted:[a-z0-9.]*": //p')
  echo "pod security: $warned"
  grep -q 'hostNetwork: true' "$1" || [ -n "$warned" ] || return 0 # only the autoscaler
  [[ $warned =~ ^host\ namespaces\ \(hostNetwork=true\),\ hostPort\ \([^\)]*\)$ ]] && return
  # The values file `extra` adds volumes, whose security is up to the user.
  [[ $warned == *"host namespaces"* && $(basename "$1") == extra.* ]]
}

if [ -n "${KUBE_SERVER:-}" ]; then
  client=("$kubectl" --server "$KUBE_SERVER" --token "$KUBE_TOKEN" --insecure-skip-tls-verify)
  "${client[@]}" apply -f "$here/tests/cert-manager.crds.yaml" >/dev/null
  "${client[@]}" wait --for=condition=Established --timeout=30s -f "$here/tests/cert-manager.crds.yaml" >/dev/null
fi
for values in "$here"/tests/*.values.yaml; do
  name=$(basename "$values" .values.yaml)
  n=$((n + 1))
  namespace=$(sed -nE '1s/^# namespace: ([a-z0-9-]+)\..*/\1/p' "$values")
  kubernetes=$(sed -nE '1s/^# kubernetes: (v[0-9.]*[0-9])\..*/\1/p' "$values")
  if "$helm" template vsphere-cpi "$here" --namespace "${namespace:-kube-system}" --kube-version "${kubernetes:-$version}" -f "$values" \
    >"$scratch/$name.rendered.yaml" 2>"$scratch/$name.refused"; then
    rm "$scratch/$name.refused"
    if [ -n "${KUBE_SERVER:-}" ]; then
      judged "$scratch/$name.rendered.yaml" "${namespace:-kube-system}" >"$scratch/judged" 2>&1 ||
        { fail "$name: refused by the API server"; cat "$scratch/judged"; }
    fi
    text_of "$scratch/$name.rendered.yaml" 'vsphere-cloud-config|my-config' >"$scratch/vsphere.conf"
    if [ -n "${PROVIDER:-}" ] && [ -s "$scratch/vsphere.conf" ]; then
      read_by_provider "$scratch/vsphere.conf" || { fail "$name: refused by the provider"; cat "$scratch/said"; }
    fi
    text_of "$scratch/$name.rendered.yaml" vsphere-autoscaler-groups >"$scratch/groups.yaml"
    if [ -n "${PROVIDER:-}" ] && [ -s "$scratch/groups.yaml" ]; then
      groups_read "$scratch/groups.yaml" || { fail "$name: groups refused by the provider"; cat "$scratch/said"; }
    fi
  else
    rm "$scratch/$name.rendered.yaml"
    # Removes the place in the template from helm's error.
    sed -nE 's,^Error: execution error at \([^)]*\): ,,p' "$scratch/$name.refused" >"$scratch/said"
    [ -s "$scratch/said" ] || { fail "$name: helm fails, but not with an error of the chart"; cat "$scratch/$name.refused"; }
    mv "$scratch/said" "$scratch/$name.refused"
  fi
  if [ -n "$update" ]; then
    rm -f "$here/tests/$name".{rendered.yaml,refused}
    cp "$scratch/$name".[r]e* "$here/tests/"
  fi
  for kind in rendered.yaml refused; do
    [ -e "$here/tests/$name.$kind" ] || [ -e "$scratch/$name.$kind" ] || continue
    diff -u --label "tests/$name.$kind" --label 'rendered now' <(cat "$here/tests/$name.$kind" 2>/dev/null) <(cat "$scratch/$name.$kind" 2>/dev/null) ||
      fail "$name: $kind"
  done
done
for known in "$here"/tests/*.{rendered.yaml,refused}; do
  base=$(basename "$known")
  [ -e "$here/tests/${base%%.*}.values.yaml" ] || fail "$base: its values file is missing"
done
# The image has the version of the workspace, so the chart has to name that version.
[ "$(sed -nE 's/^appVersion: //p' "$here/Chart.yaml")" = "$(sed -nE 's/^version = "(.*)"/\1/p' "$root/Cargo.toml" | head -n 1)" ] ||
  fail "Chart.yaml: appVersion: write the version of Cargo.toml"
"$here/render.sh" --check || fail "provider/deploy: the manifests differ; run chart/render.sh"
permissions() { awk '/^kind: Role$/ { role = 1 } /^(---|```)/ { role = 0 } role' "$1"; } # FILE: prints the Role in a manifest or a page
diff -u --label docs/autoscaler.md --label 'autoscaler-{supervisor,tokens,supervisor-tokens}-role.yaml' \
  <(permissions "$root/docs/autoscaler.md") \
  <(for file in supervisor tokens supervisor-tokens; do permissions "$here/../autoscaler-$file-role.yaml"; done) ||
  fail "docs/autoscaler.md, Permissions and Bootstrap tokens: write the Roles of provider/deploy/autoscaler-*-role.yaml"
rules() { # FILE NAME: prints the rules of the role NAME in the file, without comments and indentation
  awk -v name="$2" '/^---/ { on = named = 0 } /^  name: / && $2 == name { named = 1 } named && /^rules:/ { on = 1; next } on && !/^ *#/ { sub(/^ +/, ""); print }' "$1"
}
diff -u --label provider/tests/it/autoscaler/role.yaml --label 'the role for Cluster API' <(rules "$root/provider/tests/it/autoscaler/role.yaml" vsphere-autoscaler) \
  <(rules "$here/tests/autoscaler-cluster-api-namespace.rendered.yaml" vsphere-autoscaler-cluster-api) ||
  fail "templates/_autoscaler-backend.tpl: write the rules of provider/tests/it/autoscaler/role.yaml, with which the tests run the server"
diff -u --label autoscaler-events-role.yaml --label 'the role for events' <(rules "$here/../autoscaler-events-role.yaml" vsphere-autoscaler-events) \
  <(rules "$here/tests/autoscaler-vcenter.rendered.yaml" vsphere-autoscaler-events) ||
  fail "templates/_autoscaler-backend.tpl: write the rules of ../autoscaler-events-role.yaml"
if [ -n "${PROVIDER:-}" ]; then
  text_of "$here/../autoscaler.yaml" vsphere-autoscaler-groups >"$scratch/groups.yaml"
  groups_read "$scratch/groups.yaml" || { fail "autoscaler.yaml: groups refused by the provider"; cat "$scratch/said"; }
fi
if [ -n "${KUBE_SERVER:-}" ]; then
  judged "$here/../autoscaler.yaml" kube-system >"$scratch/judged" 2>&1 || { fail "autoscaler.yaml: refused by the API server"; cat "$scratch/judged"; }
  text_of "$here/../autoscaler.yaml" vsphere-autoscaler-certificates >"$scratch/certificates.sh"
  "$here/autoscaler.sh" "$scratch/certificates.sh" || fail "autoscaler.sh"
fi
echo "$n values files: $failed failed"
[ "$failed" -eq 0 ]
