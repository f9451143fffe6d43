#!/bin/sh
# Apply every patch of this directory, in the order of their numbers, to Horovod's sources in the directory that the
# first argument names. Exit with code 1 at the first patch that does not apply exactly as written.
set -eu
patches=$(cd "$(dirname "$0")" && pwd)
cd "$1"
for patch in "$patches"/*.patch; do
  patch --strip=1 --fuzz=0 --forward --no-backup-if-mismatch --input="$patch" || {
    echo "$patch does not apply to $1: its lines are not in Horovod's sources, or an earlier patch changed them" >&2
    exit 1
  }
done
