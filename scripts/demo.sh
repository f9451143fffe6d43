#!/bin/sh
# Run the commands of a first session: deploy two local nodes, train on real data, show the result, tear down.
set -eu
cd "$(dirname "$0")/.."
# A reserved cluster name; --config /dev/null selects local nodes even if ./cluster.yaml names a cloud.
cluster="--cluster make-demo --config /dev/null"
started=$(date +%s)

run() {
  echo
  echo "\$ orchestrator $*"
  .venv/bin/orchestrator "$@"
}

# shellcheck disable=SC2086  # several words
trap 'run teardown --discard-runs $cluster' EXIT
trap 'exit 130' INT TERM
# shellcheck disable=SC2086
{
  run deploy --nodes 2 $cluster
  run status $cluster
  run train resnet20 --dataset mnist --data tests/data/mnist --epochs 3 $cluster
}
trap - EXIT
# shellcheck disable=SC2086
run teardown $cluster
echo
echo "demo: done in $(($(date +%s) - started)) s; results stay in ${XDG_STATE_HOME:-$HOME/.local/state}/orchestrator/make-demo/runs"
