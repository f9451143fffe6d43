#!/bin/sh
# Prepare a fresh Debian or Ubuntu for `make demo` and `make test`: start Docker Engine, install an ssh client, Python's
# venv module, and mmdebstrap if no image registry answers. Installed programs stay unchanged.
set -eu
PATH=$PATH:/usr/sbin:/sbin # directories of dockerd

say() { echo "setup: $*"; }

proxies=$(env | sed -n -E 's/^((https?|no)_proxy|(HTTPS?|NO)_PROXY)=..*/\1/p' | paste -s -d , -)
as_root() { # sudo passes on no settings of proxies by itself: apt and dockerd need them
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo ${proxies:+"--preserve-env=$proxies"} "$@"; fi
}

install_packages() {
  command -v apt-get > /dev/null || { say "please install by hand: $*"; exit 2; }
  say "installing $*"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "$@" > /dev/null
}

need() { # need COMMAND PACKAGE: add PACKAGE to the list if COMMAND is missing
  command -v "$1" > /dev/null || missing="$missing $2"
}

missing=
need ssh openssh-client
docker info > /dev/null 2>&1 || need dockerd docker.io
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { say "Python 3.10 or newer is needed"; exit 2; }
test -e /etc/ssl/certs/ca-certificates.crt || missing="$missing ca-certificates"
python3 -c 'import ensurepip' 2> /dev/null || missing="$missing python3-venv"
if [ -n "$missing" ]; then
  # shellcheck disable=SC2086  # a list of packages
  install_packages $missing
fi
command -v docker > /dev/null || install_packages docker-cli # a separate package in Debian 13

# After an engine was killed, another process may have its pid, which a new engine would mistake for the old engine.
forget_dead() { # forget_dead PIDFILE NAME
  as_root sh -c 'test ! -f "$1" || grep -qsx "$2" "/proc/$(cat "$1")/comm" || rm "$1"' sh "$1" "$2"
}

start_docker() {
  if [ -d /run/systemd/system ]; then
    say "starting Docker Engine by systemctl"
    as_root systemctl start docker
  else
    say "starting dockerd in the background, as there is no systemd here (log: /var/log/dockerd.log)"
    forget_dead /var/run/docker.pid dockerd
    forget_dead /var/run/docker/containerd/containerd.pid containerd
    as_root sh -c 'setsid nohup dockerd > /var/log/dockerd.log 2>&1 < /dev/null &'
  fi
}

docker_answers() {
  docker info > /dev/null 2>&1 || as_root docker info > /dev/null 2>&1
}

here=$(dirname "$0")
if ! docker_answers; then
  start_docker
  for _ in $(seq 60); do
    docker_answers && break
    sleep 0.5
  done
fi
docker_answers || { say "Docker Engine does not start: see /var/log/dockerd.log"; exit 2; }
if ! docker info > /dev/null 2>&1; then
  say "adding $(id -un) to the group docker: this command continues as a member; to use orchestrator afterwards, log out" \
    "of the desktop (or ssh) session and in again (a new terminal is not enough)"
  as_root usermod --append --groups docker "$(id -un)"
fi

# The base image is pulled from a registry, or built with mmdebstrap if no registry answers.
base=$(sed -n 's/^DEBIAN_12 = "\(.*\)"$/\1/p' "$here/../orchestrator/config/provider_sections.py")
if ! command -v mmdebstrap > /dev/null && ! "$here/with-docker.sh" docker image inspect "$base" > /dev/null 2>&1 &&
  ! "$here/with-docker.sh" docker pull --quiet "$base" > /dev/null 2>&1; then
  say "no image registry answers"
  install_packages mmdebstrap debian-archive-keyring uidmap
fi
