#!/bin/sh
# Make the trainer's image a node image, which stands in for a virtual machine. Ansible needs Debian's Python, which an
# image of a user with another Python may lack.
set -eux
apt-get update
apt-get install --yes --no-install-recommends iproute2 openssh-server python3 sudo systemd-sysv \
  prometheus prometheus-alertmanager prometheus-node-exporter
rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*
systemctl disable prometheus prometheus-alertmanager prometheus-node-exporter
systemctl mask dev-hugepages.mount getty.target console-getty.service sys-fs-fuse-connections.mount \
  sys-kernel-debug.mount sys-kernel-tracing.mount systemd-logind.service systemd-udevd.service \
  systemd-ask-password-console.path systemd-ask-password-wall.path \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
useradd --create-home --shell /bin/bash orchestrator
echo 'orchestrator ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/orchestrator
# A local node cannot create namespaces. systemd then skips a unit's mount namespace, but a unit that asks for a user
# namespace fails.
install -d /usr/lib/systemd/system/service.d
printf '[Service]\nPrivateUsers=no\n' > /usr/lib/systemd/system/service.d/container.conf
