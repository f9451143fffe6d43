#!/bin/sh
# Runs when this node shuts down: requests a checkpoint from each training run with ranks on this node, and waits until
# these ranks end.
set -u

here() {
  cat /proc/[0-9]*/environ 2> /dev/null | tr '\0' '\n' | sed -n 's/^ORCHESTRATOR_RANK=\(.*\):[0-9]*$/\1/p' | sort -u
}

asked=""
for run in $(here); do
  directory=/shared/runs/$run
  if test -f "$directory/config.json" && test -d "$directory/checkpoints"; then
    touch "$directory/stop" && asked=yes
  fi
done
for _ in $(seq 125); do
  if test -z "$asked" || test -z "$(here)"; then exit 0; fi
  sleep 0.2
done
