#!/usr/bin/env bash
# Builds a node image for kind from Debian packages and Go modules, in the local engine, and prints its name. For machines that
# cannot pull kind's image. Needs root, x86-64, and a running Docker engine (../engine.sh starts one).
#
#   kind/node-image/build.sh      -> vsphere-lab/node:<Kubernetes version>-<hash of all inputs>
#
# Does not build an existing image again. The slow parts (programs, Debian packages) stay in ~/.cache/vsphere-lab under a hash of their
# inputs, so that a build after an interrupted one uses them. Prints its progress to stderr and the name to stdout.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
peers=$root/conformance/peers
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vsphere-lab/kind
suite=bookworm
packages=systemd,systemd-sysv,dbus,conntrack,iptables,nftables,iproute2,ethtool,util-linux,mount,kmod,libseccomp2,bash,ca-certificates,jq,procps,socat,containernetworking-plugins,runc,iputils-ping,curl

say() { printf 'node image: %s\n' "$*" >&2; }
die() { say "$1"; say "remedy: $2"; exit 1; }
leftovers() { # removes folders and containers of builds that were killed
  local name
  for name in $(cd "$cache" && ls -d build.* 2>/dev/null; docker ps -a --filter label=io.vsphere-lab.build=node-image --format '{{.Names}}'); do
    case $name in
      build.*) ! alive "$(echo "$name" | cut -d. -f2)" || continue; rm -rf "${cache:?}/$name" ;;
      vsphere-lab-node-build-*) alive "${name##*-}" || docker rm -f "$name" >/dev/null ;;
    esac
  done
}
alive() { [ -e "/proc/$1" ]; }
hash_of() { sha256sum | cut -c1-12; } # of standard input
step() { # NAME COMMAND…: runs the command, and prints a line before and after it
  local name=$1 started=$SECONDS
  shift
  say "$name …"
  "$@" >&2 || die "$name failed" "read the lines above"
  say "$name: $((SECONDS - started)) s"
}

docker info >/dev/null 2>&1 || die "no Docker engine answers" "start one: kind/engine.sh up"

version=$(sed -nE 's,^require k8s.io/kubernetes (v.*),\1,p' "$peers/kubernetes/go.mod")
kind_version=$(sed -nE 's,^require sigs.k8s.io/kind (v.*),\1,p' "$peers/kind/go.mod")
inputs=$({
  cat "$here"/build.sh "$here"/files/*
  cat "$peers"/build.sh "$peers"/{kubernetes,kubernetes-node,etcd,containerd,coredns,crictl}/{go.mod,go.sum,*.go}
  echo "$suite $packages $kind_version"
} | hash_of)
image=vsphere-lab/node:$version-$inputs
if docker image inspect "$image" >/dev/null 2>&1; then
  say "$image: exists already"
  printf '%s\n' "$image"
  exit 0
fi
[ "$(uname -m)" = x86_64 ] || die "the architecture $(uname -m) is not supported, only x86_64" "name an existing image: --image"
[ "$(id -u)" = 0 ] || die "debootstrap needs root to make a root file system" "run this as root"
for tool in docker debootstrap jq gcc go; do
  command -v "$tool" >/dev/null || die "$tool is not in PATH" \
    "apt-get install docker.io debootstrap jq gcc libc6-dev; Go from https://go.dev/dl/"
done
mkdir -p "$cache"
leftovers
scratch=$(mktemp -d "$cache/build.$$.XXXXXX")
trap 'rm -rf "$scratch"; docker rm -f "vsphere-lab-node-build-$$" >/dev/null 2>&1 || true' EXIT

peer() { "$peers/build.sh" "$1"; }
label() { printf 'LABEL io.vsphere-lab.image=node\n'; }

# --- parts of the image

binaries() { # builds every program, and links it into $scratch/bin
  mkdir -p "$scratch/bin"
  local name path
  for name in kubeadm kubelet kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd \
    containerd ctr containerd-shim-runc-v2 crictl coredns; do
    path=$(peer "$name")
    ln -s "$path" "$scratch/bin/$name"
  done
}

debian() { # makes a root file system of Debian, as a tar file in the cache
  tarball=$cache/debian-$suite-$(printf %s "$packages" | hash_of).tar
  [ ! -s "$tarball" ] || return 0
  local mirror
  # Takes the Debian mirror from this machine's apt sources, and ignores its other sources.
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(SITE)' "Created-By: Packages" | sed -n '/security/d; s/^Debian //p' | sed -n 1p)
  mirror=${mirror:-https://deb.debian.org/debian}
  debootstrap --variant=minbase --include="$packages" "$suite" "$scratch/debian" "$mirror" >"$scratch/debootstrap.log" 2>&1 ||
    { tail -n 20 "$scratch/debootstrap.log"; return 1; }
  (cd "$scratch/debian" && rm -rf var/cache/apt/* var/lib/apt/lists/* usr/share/{doc,man,locale}/* var/log/*)
  tar -C "$scratch/debian" --numeric-owner -cf "$tarball.part" .
  mv "$tarball.part" "$tarball"
  rm -rf "$scratch/debian"
}

layout() { # does the same as kind's images/base, with the files of kind: adds programs and files to the root file system
  local node=$scratch/node kind files unit
  mkdir -p "$node"
  tar -C "$node" -xf "$tarball"
  kind=$(cd "$peers/kind" && go list -mod=readonly -m -f '{{.Dir}}' sigs.k8s.io/kind)
  [ -n "$kind" ] || kind=$(cd "$peers/kind" && go mod download -json sigs.k8s.io/kind | jq -r .Dir)
  files=$kind/images/base/files
  for unit in etc kind usr; do (cd "$files" && tar -c --mode=u+w "$unit") | tar -x -C "$node" --no-same-owner; done
  chmod 755 "$node"/kind "$node"/kind/bin "$node"/kind/bin/* "$node"/usr/local/bin/entrypoint
  install -m 755 "$scratch"/bin/{containerd,ctr,containerd-shim-runc-v2,crictl} "$node/usr/local/bin/"
  install -m 755 "$scratch"/bin/{kubeadm,kubelet,kubectl} "$node/usr/bin/"
  install -d "$node/usr/local/sbin"
  mv "$node/usr/sbin/runc" "$node/usr/local/sbin/runc.real"
  install -m 755 "$here/files/runtime" "$node/usr/local/sbin/runc"
  mkdir -p "$node"/opt/cni/bin "$node"/etc/kubernetes/manifests "$node"/kind/manifests
  for unit in bridge host-local loopback portmap ptp; do ln -sf "/usr/lib/cni/$unit" "$node/opt/cni/bin/$unit"; done
  install -m 755 "$here/files/pod-network" "$node/usr/local/bin/"
  install -m 644 "$here/files/pod-network.service" "$node/etc/systemd/system/"
  install -m 644 "$here"/files/default-*.yaml "$node/kind/manifests/"
  printf %s "$version" >"$node/kind/version"
  systemd "$node"
  settings "$node"
}

systemd() { # NODE: enables the services that a machine in a container needs, and removes the others
  local units=$1/lib/systemd/system
  find "$units/sysinit.target.wants/" -name systemd-tmpfiles-setup.service -delete
  rm -f "$units"/multi-user.target.wants/* "$1"/etc/systemd/system/*.wants/* "$units"/local-fs.target.wants/* \
    "$units"/sockets.target.wants/*udev* "$units"/sockets.target.wants/*initctl* "$units"/basic.target.wants/*
  echo ReadKMsg=no >>"$1/etc/systemd/journald.conf"
  ln -sf /usr/lib/systemd/systemd "$1/sbin/init"
  chroot "$1" systemctl enable kubelet.service containerd.service undo-mount-hacks.service pod-network.service
  chroot "$1" systemctl mask systemd-binfmt.service
  # The cgroup driver talks to systemd over D-Bus.
  mkdir -p "$1/etc/systemd/system/sockets.target.wants"
  ln -sf /lib/systemd/system/dbus.socket "$1/etc/systemd/system/sockets.target.wants/dbus.socket"
}

settings() { # NODE: writes the settings of containerd, kubelet and machine ID
  # Without CAP_SYS_RESOURCE no process may lower an oom_score_adj.
  sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$1/etc/containerd/config.toml"
  grep -q 'restrict_oom_score_adj = true' "$1/etc/containerd/config.toml"
  "$scratch/bin/ctr" oci spec |
    jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
      >"$1/etc/containerd/cri-base.json"
  # kubelet refuses cgroup v1 without --fail-cgroupv1=false.
  echo 'KUBELET_EXTRA_ARGS="--runtime-cgroups=/system.slice/containerd.service --fail-cgroupv1=false"' >"$1/etc/default/kubelet"
  # Because of the empty file each node gets its own machine ID at its first start. A kubelet without DMI reports it as system UUID.
  rm -f "$1/var/lib/dbus/machine-id"
  : >"$1/etc/machine-id"
}

base() { # builds the node image without the cluster's images
  base=vsphere-lab/node-base:$inputs
  tar -C "$scratch/node" --numeric-owner -c . | docker import - "$base-files"
  # `docker import` cannot set the stop signal, so a build sets it.
  { printf 'FROM %s\nENV container=docker\nSTOPSIGNAL SIGRTMIN+3\n' "$base-files"; label
    printf 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]\n'; } |
    DOCKER_BUILDKIT=0 docker build -q -t "$base" -
}

scratch_image() { # NAME FOLDER [INSTRUCTION]: builds an image from the folder
  printf 'FROM scratch\nCOPY . /\nENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n%s\n' "${3:-}" >"$2.Dockerfile"
  DOCKER_BUILDKIT=0 docker build -q -t "$1" -f "$2.Dockerfile" "$2"
  names+=("$1")
}

images() { # builds the images that kubeadm needs, each from one program
  local all name folder image
  names=()
  all=$("$scratch/bin/kubeadm" config images list --kubernetes-version "$version" 2>/dev/null)
  mkdir -p "$scratch/images"
  for image in $all; do
    name=${image##*/} name=${name%%:*} folder=$scratch/images/$name
    mkdir -p "$folder"
    case $name in
      pause) continue ;; # built below, under the name in containerd's configuration
      coredns)
        cp -L "$scratch/bin/coredns" "$folder/"
        scratch_image "$image" "$folder" 'ENTRYPOINT ["/coredns"]'
        ;;
      *)
        mkdir -p "$folder/usr/local/bin"
        cp -L "$scratch/bin/$name" "$folder/usr/local/bin/"
        [ "$name" != kube-proxy ] || packet_filter "$folder"
        scratch_image "$image" "$folder"
        ;;
    esac
  done
  image=$(sed -nE 's,.*sandbox(_image)? = [\x27"]([^\x27"]+)[\x27"].*,\2,p' "$scratch/node/etc/containerd/config.toml" | head -n 1)
  mkdir -p "$scratch/images/pause"
  gcc -Os -static -s -o "$scratch/images/pause/pause" "$here/files/pause.c"
  scratch_image "$image" "$scratch/images/pause" 'ENTRYPOINT ["/pause"]'
  docker save -o "$scratch/images.tar" "${names[@]}"
}

packet_filter() { # FOLDER: copies nft, iptables over nft, and their libraries, for kube-proxy
  local node=$scratch/node name library
  mkdir -p "$1"/usr/{sbin,lib64} "$1/usr/lib/x86_64-linux-gnu" "$1/run" "$1/tmp"
  cp "$node"/usr/sbin/{nft,xtables-nft-multi} "$1/usr/sbin/"
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s xtables-nft-multi "$1/usr/sbin/$name"
  done
  for name in lib lib64 sbin; do ln -s "usr/$name" "$1/$name"; done
  cp -a "$node/usr/lib/x86_64-linux-gnu/xtables" "$1/usr/lib/x86_64-linux-gnu/"
  for library in $(cd "$node" && for name in usr/sbin/nft usr/sbin/xtables-nft-multi usr/lib/x86_64-linux-gnu/xtables/*.so; do
    chroot . ldd "/$name"
  done | tr ' \t' '\n' | grep '^/' | sort -u); do
    mkdir -p "$1$(dirname "$library")"
    cp -L "$node$library" "$1$library"
  done
}

node() { # starts the base image, imports the cluster's images into its containerd, and commits the node image
  local name=vsphere-lab-node-build-$$ n=0
  docker run -d --name "$name" --label io.vsphere-lab.build=node-image --privileged --entrypoint sleep "$base" infinity
  docker exec -d "$name" /usr/local/bin/containerd
  until docker exec "$name" ctr version >/dev/null 2>&1; do
    n=$((n + 1))
    [ "$n" -le 100 ] || { echo "containerd does not answer in the container"; return 1; }
    sleep 0.2
  done
  docker exec -i "$name" ctr -n k8s.io images import --label=io.cri-containerd.pinned=pinned --all-platforms --no-unpack \
    --digests - <"$scratch/images.tar"
  docker exec "$name" sh -c 'kill $(pidof containerd); while pidof containerd; do sleep 0.1; done; rm -rf /run/containerd /var/lib/containerd/tmpmounts'
  docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' "$name" "$image"
  docker rm -f "$name"
  docker image rm "${names[@]}" >/dev/null
}

step "programs of Kubernetes $version (ten minutes without a cache)" binaries
step "Debian $suite" debian
step "layout" layout
step "base image" base
step "images of the cluster" images
step "node image" node
say "$image: built in $SECONDS s"
printf '%s\n' "$image"
