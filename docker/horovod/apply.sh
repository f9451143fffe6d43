#!/bin/sh
# Applies every patch of this directory to Horovod's sources, which lie in the directory of the first argument, in the
# order of their numbers. The first patch that does not apply exactly as written ends it with exit code 1.
set -eu
patches=$(cd "$(dirname "$0")" && pwd)
cd "$1"
for patch in "$patches"/*.patch; do
  patch --strip=1 --fuzz=0 --forward --no-backup-if-mismatch --input="$patch" || {
    echo "$patch does not apply to $1: its lines are not in Horovod's sources, or an earlier patch changed them" >&2
    exit 1
  }
done
