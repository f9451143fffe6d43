#!/bin/sh
# Run the session of docs/images/session.svg on a local cluster `lab`. CONTRIBUTING.md has the command that records it.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
export PATH="$root/.venv/bin:$PATH"
directory=$(mktemp --directory)
export XDG_STATE_HOME="$directory/state"
ln -s "$root/tests/data/mnist" "$directory/mnist"
printf 'name: lab\nmonitoring: {grafana: "off"}\n' > "$directory/cluster.yaml"
cd "$directory"

run() {
  printf '\033[1;32m$\033[0m \033[1m'
  sleep 0.6
  printf '%s\033[0m\n' "$*"
  sleep 0.8
  "$@"
  sleep 1.5
  echo
}

trap 'orchestrator teardown --discard-runs > /dev/null 2>&1; rm -r "$directory"' EXIT
trap 'exit 130' INT TERM # dash runs no EXIT trap for a signal
run orchestrator deploy --nodes 2
run orchestrator train lenet --dataset mnist --data mnist --epochs 2
run orchestrator results
run orchestrator teardown
trap 'rm -r "$directory"' EXIT
sleep 3
