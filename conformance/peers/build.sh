#!/usr/bin/env bash
# Builds a peer (a program of another project) from its Go module and prints the path of the binary.
#
#   conformance/peers/build.sh govc             -> ~/.cache/vsphere-lab/peers/govc-0.55.1-<hash>/govc
#   conformance/peers/build.sh kube-apiserver   -> ~/.cache/vsphere-lab/peers/kubernetes-1.36.3-<hash>/kube-apiserver
#
# Each folder beside this script is a module. A module with a main.go builds one program with the name of the folder. If such a module has a
# file VARIANT.mod beside go.mod, it builds the program also as FOLDER-VARIANT, with the versions of that file and the build tag VARIANT. Any
# other module builds the commands that its tools.go imports, and stamps the version in as Kubernetes' own build does. All
# modules require the same versions of the dependencies that they share, if their programs allow that, because Go compiles a
# package again if the version of a dependency differs.
# The script prints its steps to stderr and the path to stdout. A built program stays in a cache outside the tree. The
# cache key is the version of the module's first requirement, and a hash of the module's files and of the linking mode.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vsphere-lab/peers

say() { printf 'peers: %s\n' "$*" >&2; }
die() { say "$1"; say "remedy: $2"; exit 1; }
variants() { find "$1" -maxdepth 1 -name '*.mod' ! -name go.mod -printf '%f\n' | sed 's/\.mod$//' | sort; } # MODULE: prints the names of its variants
commands() { sed -nE 's,^[[:space:]]*_ "(.*)",\1,p' "$1/tools.go"; } # MODULE: prints the packages that it imports as tools
peers() {
  local module
  for module in "$here"/*/go.mod; do
    module=${module%/go.mod}
    [ ! -e "$module/run.sh" ] || continue # its own run.sh builds it
    if [ -f "$module/main.go" ]; then
      basename "$module"
      variants "$module" | sed "s,^,$(basename "$module")-,"
    else
      commands "$module" | sed 's,.*/,,'
    fi
  done | paste -sd' '
}

[ $# -eq 1 ] || { say "usage: build.sh NAME, where NAME is one of: $(peers)"; exit 2; }
name=$1 module='' package=. mod=go.mod tags=
for dir in "$here"/*/; do
  dir=${dir%/}
  if [ -f "$dir/main.go" ]; then
    [ "$(basename "$dir")" != "$name" ] || module=$dir
    for variant in $(variants "$dir"); do
      [ "$(basename "$dir")-$variant" != "$name" ] || module=$dir mod=$variant.mod tags=$variant
    done
  elif found=$(commands "$dir" | grep -E "/$name\$"); then
    module=$dir package=$found
  fi
done
[ -n "$module" ] || { say "unknown peer '$name'"; say "remedy: name one of: $(peers)"; exit 2; }

cd "$module"
version=$(sed -nE 's/^(require )?[[:space:]]*[a-z][^ ]*\.[^ ]+ v([^ ]+).*/\2/p' "$mod" | head -n 1)
mapfile -t sources < <(find . -name '*.go' ! -name '*_test.go' | LC_ALL=C sort)
hash=$({ cat "$mod" "${mod%.mod}.sum" "${sources[@]}"; echo static; } | sha256sum | cut -c1-12)
dir=$cache/$(basename "$module")-$version-$hash
if [ -x "$dir/$name" ]; then
  say "$name $version: found in the cache"
  printf '%s\n' "$dir/$name"
  exit 0
fi

wanted=$(sed -nE 's/^go ([0-9]+\.[0-9]+).*/\1/p' "$mod")
command -v go >/dev/null || die "building $name needs Go $wanted or newer, but go is not in PATH" \
  "install it from https://go.dev/dl/ (or your distribution's package, if it is recent enough)"
have=$(go env GOVERSION | sed -E 's/^go([0-9]+\.[0-9]+).*/\1/')
[ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ] ||
  [ "$(go env GOTOOLCHAIN)" != local ] ||
  die "building $name needs Go $wanted or newer, but go is $have" "install a newer one from https://go.dev/dl/"

mkdir -p "$dir"
scratch=$(mktemp -d "$dir/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
say "$name $version: building (takes a minute or two without Go's build cache; kube-apiserver three or four)"
started=$SECONDS
# The linker ignores variables of packages that a program does not contain.
stamp=
for variable in k8s.io/component-base/version.gitVersion k8s.io/client-go/pkg/version.gitVersion \
  github.com/containerd/containerd/v2/version.Version helm.sh/helm/v3/internal/version.version; do
  stamp="$stamp -X $variable=v$version"
done
[ "$package" != . ] || stamp=
tags=$tags$(sed -n 's,^// tags: ,,p' ./*.go)
# Links statically, because some peers run in images that contain nothing else. The compiler collects garbage only when it is short of
# memory, which saves a tenth of its time.
GOGC=${GOGC:-off} GOMEMLIMIT=${GOMEMLIMIT:-2GiB} CGO_ENABLED=0 go build -mod=readonly -modfile="$mod" -trimpath -tags "$tags" -ldflags "-s -w $stamp" -o "$scratch/$name" "$package" ||
  die "cannot build $name" "read the lines above; without a network, set GOPROXY to a mirror that has the modules of $module/$mod"
mv "$scratch/$name" "$dir/$name"
say "$name $version: built in $((SECONDS - started)) s"
printf '%s\n' "$dir/$name"
