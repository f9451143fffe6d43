#!/bin/sh
# Run a command as a member of the group docker, also if the membership is newer than this terminal.
if docker info > /dev/null 2>&1; then
  exec "$@"
fi

quote() { printf "'%s' " "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }

# The inner sg restores the account's own primary group: newuidmap, which mmdebstrap calls, refuses any other.
as_member() { sg docker -c "exec sg $(quote "$(id -gn)") -c $(quote "$1")"; }

if as_member 'id -Gn' 2> /dev/null | grep -qw docker; then
  quoted=
  for word in "$@"; do
    quoted="$quoted$(quote "$word")"
  done
  as_member "$quoted"
elif id -Gn "$(id -un)" | grep -qw docker && command -v sudo > /dev/null && sudo true; then
  # The inner sg of Debian 13, which is util-linux's, drops the group again.
  exec sudo --preserve-env env HOME="$HOME" PATH="$PATH" \
    setpriv --reuid "$(id -u)" --regid "$(id -g)" --init-groups "$@"
else
  exec "$@"
fi
