# Succeeds if the files and units that the last deploy recorded in file $1 are unchanged and active.
verify_checksums() {
  sha256sum --check --status "$1" || return 1
  set -- $(sed -n 's/^# unit //p' "$1")
  [ $# -eq 0 ] || [ "$(systemctl is-active "$@" | grep -cx active)" -eq $# ]
}
