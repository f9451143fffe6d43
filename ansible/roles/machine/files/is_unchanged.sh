# Whether the files and units are there that the last deploy noted in the file $1.
is_unchanged() {
  sha256sum --check --status "$1" || return 1
  set -- $(sed -n 's/^# unit //p' "$1")
  [ $# -eq 0 ] || [ "$(systemctl is-active "$@" | grep -cx active)" -eq $# ]
}
