#!/bin/sh
# From nothing to a trained model, as a user would type it: two local nodes, real data, the result, and nothing left.
set -eu
cd "$(dirname "$0")/.."
# A name that nobody's own cluster has; local nodes, which cost nothing, whatever cloud ./cluster.yaml names.
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
