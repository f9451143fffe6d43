# Makes this machine a node of a cluster, as root. Says what it changes; done again, it changes nothing.
# Given: cluster, id (of the deployment), node, by (who deploys), key (type and key),
# uid and gid (of an account that is made; none: it is not made).
set -eu
umask 022
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
account=orchestrator
mark=/etc/orchestrator/deployment

marked() { if [ -e $mark ]; then sed -n "s/^$1 //p" $mark; fi; }
was() { if [ -e "$1" ]; then echo found; else echo made; fi; }

# Puts standard input into file $1, whole or not at all, with mode $2 and owner $3 where there was none.
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

other=$(marked id)
if [ -n "$other" ] && [ "$other" != "$id" ]; then
  echo "it is a node of cluster $(marked cluster) ($other) by now" >&2
  exit 1
fi

# What was here before is written down first: only then can what we make be told from it, whenever this is interrupted.
if entry=$(getent passwd $account); then home=$(echo "$entry" | cut -d : -f 6); else home=/home/$account; fi
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
    echo "there is no account $account any more" >&2
    exit 1
  fi
  getent group $account > /dev/null || groupadd --system --gid "$gid" $account
  useradd --system --uid "$uid" --gid "$gid" --home-dir $home --create-home --shell /bin/bash --password '*' $account
  echo "changed account $account"
fi
if [ "$(marked account)" = made ]; then
  grant=/etc/sudoers.d/$account-cluster
  echo "$account ALL=(ALL) NOPASSWD: ALL" > $grant.try # names with a dot are ignored
  visudo -c -q -f $grant.try
  put $grant 0440 root:root < $grant.try
  rm $grant.try
fi

owner=$(id -u $account):$(id -g $account)
if [ ! -d "$home/.ssh" ]; then install -d -m 700 -o "${owner%:*}" -g "${owner#*:}" "$home/.ssh"; fi
keys=$home/.ssh/authorized_keys
before=
if [ -e "$keys" ]; then before=$(cat "$keys"); fi
{
  # grep says no where nothing is left
  if [ -n "$before" ]; then printf '%s\n' "$before" | grep -v " orchestrator:$cluster:$id\$" || [ $? = 1 ]; fi
  echo "$key orchestrator:$cluster:$id"
} | put "$keys" 0600 "$owner"

if ! said=$(sudo -n -u $account sudo -n true 2>&1); then
  echo "account $account cannot sudo: $said" >&2
  exit 1
fi
