#!/usr/bin/env bash
# Starts a Docker engine for the e2e suite if none runs. `up` starts dockerd with a runtime that also works on machines whose
# capability bounding set lacks CAP_SYS_RESOURCE; `down` ends the dockerd that `up` started. Neither changes another engine.
#
#   kind/engine.sh up | down
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${XDG_CACHE_HOME:-$HOME/.cache}/vsphere-lab/engine
pid=$state/dockerd.pid

say() { printf 'engine: %s\n' "$*" >&2; }
die() { say "$1"; say "remedy: $2"; exit 1; }

up() {
  local n=0
  if docker info >/dev/null 2>&1; then
    say "a Docker engine already answers"
    return
  fi
  [ "$(id -u)" = 0 ] || die "no Docker engine answers, and only root can start one" "start Docker, or run this as root"
  command -v dockerd >/dev/null || die "no Docker engine answers, and dockerd is not in PATH" \
    "apt-get install docker.io (or another engine with Docker's API)"
  mkdir -p "$state"
  install -m 755 "$here/node-image/files/runtime" "$state/runtime"
  # Each node runs a systemd, a kubelet and a containerd.
  at_least fs.inotify.max_user_instances 1024
  at_least fs.inotify.max_user_watches 1048576
  setsid nohup dockerd --add-runtime "lab=$state/runtime" --default-runtime lab >"$state/dockerd.log" 2>&1 </dev/null &
  echo $! >"$pid"
  until docker info >/dev/null 2>&1; do
    n=$((n + 1))
    [ "$n" -le 150 ] && kill -0 "$(cat "$pid")" 2>/dev/null ||
      die "dockerd does not answer: $(tail -n 3 "$state/dockerd.log" | tr '\n' ' ')" "read $state/dockerd.log"
    sleep 0.2
  done
  say "dockerd started (log: $state/dockerd.log); end it with kind/engine.sh down"
}

at_least() { # SETTING NUMBER: raises a kernel setting to this number if it is lower
  [ "$(sysctl -n "$1" 2>/dev/null || echo "$2")" -ge "$2" ] || sysctl -qw "$1=$2" || true
}

down() {
  # The process ID in the file may belong to another program by now.
  [ -s "$pid" ] && [ "$(cat "/proc/$(cat "$pid")/comm" 2>/dev/null)" = dockerd ] && kill "$(cat "$pid")" 2>/dev/null ||
    { say "no engine of kind/engine.sh up is running"; return; }
  while kill -0 "$(cat "$pid")" 2>/dev/null; do sleep 0.2; done
  rm -f "$pid"
  say "dockerd ended"
}

case ${1:-} in
  up | down) "$1" ;;
  *) say "usage: kind/engine.sh up | down"; exit 2 ;;
esac
