# Undoes adopt.sh on this machine. Runs as root, and changes nothing if repeated or if the machine was not adopted.
# Variables: id (of the deployment), configured (not empty if the work of Ansible could not be undone).
set -eu
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
account=orchestrator
mark=/etc/orchestrator/deployment

marked() { sed -n "s/^$1 //p" $mark; }

# Kills all processes of user id $1. pkill may not be installed.
kill_processes() {
  grep -ls "^Uid:[[:space:]]$1[[:space:]]" /proc/[0-9]*/status | while IFS=/ read -r _ _ process _; do
    kill -KILL "$process" 2> /dev/null || true
  done
}

remove_account() {
  uid=$(id -u $account)
  options=
  if [ "$(marked home)" = made ]; then options=--remove; fi
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill_processes "$uid"
    # userdel may fail although it removed the account, for example if there is no home directory or mail spool.
    message=$(userdel $options $account 2>&1) || true
    if ! getent passwd $account > /dev/null; then return; fi
    sleep 0.5
  done
  echo "account $account could not be removed ($message):" \
    "run \`sudo userdel $options $account\` on this machine" >&2
  exit 1
}

remove_key() {
  home=$(getent passwd $account | cut -d : -f 6)
  keys=$(readlink -f "$home/.ssh/authorized_keys") || true # fails if there is no home directory
  if [ -e "$keys" ]; then
    grep -v " orchestrator:$(marked cluster):$id\$" "$keys" > "$keys.new" || [ $? = 1 ] # code 1: no line is left
    chmod --reference="$keys" "$keys.new"
    chown --reference="$keys" "$keys.new"
    if cmp -s "$keys.new" "$keys"; then rm "$keys.new"; else mv "$keys.new" "$keys"; fi
    if [ "$(marked keys)" = made ] && [ ! -s "$keys" ]; then rm "$keys"; fi
  fi
  if [ "$(marked keys)" = made ]; then rmdir "$home/.ssh" 2> /dev/null || true; fi
  rmdir "$home/.ansible/tmp" "$home/.ansible" 2> /dev/null || true
}

restore_shared() {
  if [ -n "${2:-}" ] && [ -d /shared ]; then
    chmod "$1" /shared && chown "$2" /shared || true # the server of a mounted /shared may refuse
  fi
}

if [ ! -e $mark ] || [ "$(marked id)" != "$id" ]; then exit 0; fi
# Without mark and account no later teardown would find this machine. Ansible may also never have come here.
# The owner may have mounted /var/lib/orchestrator, which then stays.
if [ -n "$configured" ] && { [ -e /var/lib/orchestrator/data ] || grep -qs 'ORCHESTRATOR BLOCK' /etc/hosts; }; then
  echo "its configuration could not be removed" >&2
  exit 1
fi
if getent passwd $account > /dev/null; then
  remove_key
  if [ "$(marked account)" = made ]; then remove_account; fi
fi
if [ "$(marked account)" = made ]; then
  rm -f /etc/sudoers.d/$account-cluster /etc/sudoers.d/$account-cluster.*
  if getent group $account > /dev/null; then groupdel $account; fi
fi
# A deploy changes the owner of /shared only on the head. A worker may share it with nodes that remain. The name of a
# former node ends with four characters of its id.
case $(marked node) in *-head | *-head-????) restore_shared $(marked shared) ;; esac
rm -f $mark $mark.new
for empty in /root/.ansible/tmp /root/.ansible /etc/orchestrator; do rmdir $empty 2> /dev/null || true; done
