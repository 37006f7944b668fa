#!/usr/bin/env bash
# Renders the manifests of ../ from this chart, as files to read and to `kubectl create -f`.
#
#   provider/deploy/chart/render.sh            writes ../vcenter.yaml, ../supervisor.yaml and ../autoscaler.yaml
#   provider/deploy/chart/render.sh --check    prints the differences, and exits with 1 if there are any
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
helm=$("$root/conformance/peers/build.sh" helm)
# helm does not contact a cluster here, so it needs the version of Kubernetes as a flag.
version=$(sed -nE 's,^require k8s.io/kubernetes (v.*),\1,p' "$root/conformance/peers/kubernetes/go.mod")

render() { # CHANGES VALUES…
  echo "# Rendered from the chart by chart/render.sh. Change $1 before use."
  shift
  "$helm" template vsphere-cpi "$here" --namespace kube-system --kube-version "$version" "$@" |
    sed -e '/^# Source: /d' -e '/helm.sh\/chart/d' -e '/app.kubernetes.io\/managed-by/d' -e '/app.kubernetes.io\/instance/d' \
      -e '/helm.sh\/hook/d' -e '$a\'
}
differ=0
put() { # NAME CHANGES VALUES…
  local file=$here/../$1.yaml
  if [ "${check:-}" = 1 ]; then
    diff -u "$file" <(render "${@:2}") || differ=1
  else
    render "${@:2}" >"$file.part"
    mv "$file.part" "$file"
  fi
}
case ${1:-} in
  '') ;;
  --check) check=1 ;;
  *) echo "usage: render.sh [--check]" >&2; exit 2 ;;
esac
put vcenter 'server, datacenter, user, password and image' --set mode=vcenter --set config.enabled=true
put supervisor 'the image' --set mode=supervisor
put autoscaler 'groups and the image of the server' -f "$here/../autoscaler.values.yaml"
exit "$differ"
