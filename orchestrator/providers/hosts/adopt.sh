# Adopts this machine as a node of a cluster. Runs as root, prints each change, and changes nothing if repeated.
# Variables: cluster, id (of the deployment), node, by (who deploys), key (type and key),
# uid and gid (of an account to create; if empty, the account must exist).
set -eu
umask 022
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
account=orchestrator
mark=/etc/orchestrator/deployment
local_home=/var/lib/$account-home # not in /var/lib/orchestrator, which Ansible removes while it uses the account

marked() { if [ -e $mark ]; then sed -n "s/^$1 //p" $mark; fi; }
was() { if [ -e "$1" ]; then echo found; else echo made; fi; }

# Writes standard input to file $1 atomically. A new file gets mode $2 and owner $3; an existing one keeps its own.
put() {
  file=$(readlink -f "$1")
  cat > "$file.new"
  if [ -e "$file" ]; then
    chmod --reference="$file" "$file.new"
    chown --reference="$file" "$file.new"
  else
    chmod "$2" "$file.new"
    chown "$3" "$file.new"
  fi
  if cmp -s "$file.new" "$file"; then
    rm "$file.new"
  else
    mv "$file.new" "$file"
    echo "changed $file"
  fi
}

# Prints the home directory of an account to create. Only its real path is also a path in the trainer container.
# An automounted /home, and NFS, may not let root create or own a directory there.
new_home() {
  home=$(readlink -f /home || echo /home)/$account
  if [ -w "$home" ] || { mkdir "$home.try" && chown "$uid:$gid" "$home.try"; } 2> /dev/null; then
    echo "$home"
  else
    echo $local_home
  fi
  rmdir "$home.try" 2> /dev/null || true
}

other=$(marked id)
if [ -n "$other" ] && [ "$other" != "$id" ]; then
  echo "it is already a node of cluster $(marked cluster) (deployment $other), expected deployment $id:" \
    "\`orchestrator teardown --cluster $(marked cluster)\` releases it" >&2
  exit 1
fi

# The original state is recorded before any change: release.sh restores it, even if this script was interrupted.
if entry=$(getent passwd $account); then home=$(echo "$entry" | cut -d : -f 6); else home=$(new_home); fi
had_account=$(marked account) had_home=$(marked home) had_keys=$(marked keys) had_shared=$(marked shared)
mkdir -p /etc/orchestrator
put $mark 0644 root:root << END
cluster $cluster
id $id
node $node
by $by
account ${had_account:-$(if [ -n "$entry" ]; then echo found; else echo made; fi)}
home ${had_home:-$(was "$home")}
keys ${had_keys:-$(was "$home/.ssh/authorized_keys")}
shared ${had_shared:-$(stat -c '%a %u:%g' /shared 2> /dev/null || echo none)}
END

if [ -z "$entry" ]; then
  if [ -z "$uid" ]; then
    echo "account $account does not exist, and Ansible needs it to remove the configuration:" \
      "\`sudo useradd --system --home-dir $home --create-home --shell /bin/bash $account\` on this machine" \
      "creates it" >&2
    exit 1
  fi
  getent group $account > /dev/null || groupadd --system --gid "$gid" $account
  useradd --system --uid "$uid" --gid "$gid" --home-dir "$home" --create-home --shell /bin/bash --password '*' $account
  echo "changed account $account"
fi
if [ "$(marked account)" = made ]; then
  grant=/etc/sudoers.d/$account-cluster
  echo "$account ALL=(ALL) NOPASSWD: ALL" > $grant.try # sudo ignores file names with a dot
  visudo -c -q -f $grant.try
  put $grant 0440 root:root < $grant.try
  rm $grant.try
fi

owner=$(id -u $account):$(id -g $account)
for directory in "$home" "$home/.ssh"; do
  if [ ! -d "$directory" ]; then install -d -m 700 -o "${owner%:*}" -g "${owner#*:}" "$directory" || true; fi
done
if [ ! -w "$home/.ssh" ]; then
  echo "root cannot write the key of account $account to $home/.ssh (automounted or on NFS?):" \
    "\`sudo usermod --home $local_home $account\` on this machine gives it a home directory on its disk" >&2
  exit 1
fi
keys=$home/.ssh/authorized_keys
before=
if [ -e "$keys" ]; then before=$(cat "$keys"); fi
{
  # grep exits with code 1 if no line is left
  if [ -n "$before" ]; then printf '%s\n' "$before" | grep -v " orchestrator:$cluster:$id\$" || [ $? = 1 ]; fi
  echo "$key orchestrator:$cluster:$id"
} | put "$keys" 0600 "$owner"

if ! message=$(sudo -n -u $account sudo -n true 2>&1); then
  echo "account $account cannot run sudo without a password ($message):" \
    "\`echo '$account ALL=(ALL) NOPASSWD: ALL' | sudo tee -a /etc/sudoers.d/$account\` on this machine allows it" >&2
  exit 1
fi
