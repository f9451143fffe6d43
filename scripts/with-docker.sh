#!/bin/sh
# Run a command as a member of the group docker, also if the membership is newer than this terminal.
if docker info > /dev/null 2>&1 || ! command -v sg > /dev/null; then
  exec "$@"
fi

quote() { printf "'%s' " "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }

quoted=
for word in "$@"; do
  quoted="$quoted$(quote "$word")"
done
# The inner sg restores the account's own primary group: newuidmap, which mmdebstrap calls, refuses any other.
exec sg docker -c "exec sg $(quote "$(id -gn)") -c $(quote "$quoted")"
