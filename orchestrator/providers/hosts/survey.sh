# Prints the survey of this machine, one value per line. Changes nothing, and uses sudo only to test whether it works, and
# to ask Docker for its settings.
survey() { printf 'survey %s %s\n' "$1" "$2"; }

gpus=0 model=
for device in /sys/bus/pci/devices/*; do
  if [ "$(cat "$device/vendor" 2> /dev/null)" = 0x10de ]; then # NVIDIA
    case $(cat "$device/class") in 0x03*) # a display controller
      gpus=$((gpus + 1)) model="PCI device $(cat "$device/device")" ;;
    esac
  fi
done
if [ $gpus != 0 ]; then
  # Name of the model from the driver, else from the list of PCI devices.
  named=$(sed -n 's/^Model:[[:space:]]*//p' /proc/driver/nvidia/gpus/*/information 2> /dev/null | head -n 1)
  listed=$(lspci -d 10de: 2> /dev/null | sed -n 's/.*\(VGA\|3D\|Display\).*\[\(.*\)\].*/\2/p' | head -n 1)
  model=${named:-${listed:-$model}}
fi

survey system "$(. /etc/os-release 2> /dev/null && echo "${ID:-} ${VERSION_ID:-}")"
survey architecture "$(uname -m)"
survey id "$(cat /etc/machine-id /etc/ssh/ssh_host_*_key.pub 2> /dev/null | sha256sum | cut -c 1-16)"
survey boot "$(cat /proc/sys/kernel/random/boot_id)"
survey cpus "$(nproc)"
survey gpus "$gpus"
survey gpu "$model"
survey connection "$SSH_CONNECTION"
# The first IPv4 address of each interface: programs that are told an interface use this one.
survey addresses "$(ip -o -4 address show | awk '$2 != "lo" && !seen[$2]++ { sub("/.*", "", $4); printf "%s ", $4 }')"
survey ids "$(echo $(getent passwd | cut -d : -f 3) $(getent group | cut -d : -f 3))"

if message=$(sudo -n true 2>&1); then survey sudo yes; else survey sudo "$(echo $message)"; fi
if entry=$(getent passwd orchestrator); then
  survey account "$entry"
  survey real_home "$(readlink -f "$(echo "$entry" | cut -d : -f 6)")"
  if sudo -n -u orchestrator sudo -n true > /dev/null 2>&1; then survey account_sudo yes; fi
fi
if [ -r /etc/orchestrator/deployment ]; then sed 's/^/survey mark_/' /etc/orchestrator/deployment; fi

if [ -d /shared ]; then
  survey real_shared "$(readlink -f /shared)"
  # Number of entries, without notebooks, which a teardown keeps.
  survey shared "$(ls -A /shared 2> /dev/null | grep -vcxE 'lost[+]found|notebooks')"
  if [ -e /shared/.orchestrator-kept ]; then survey shared_kept yes; fi
  sed -n 's/^cluster /survey shared_cluster /p; s/^id /survey shared_id /p' /shared/.orchestrator-deployment 2> /dev/null
fi
# Free space in KiB where the trainer's image is unpacked, unless one is there already.
if [ -z "$(ls /var/lib/orchestrator/trainer 2> /dev/null)" ]; then
  directory=/var/lib
  if [ -d /var/lib/orchestrator ]; then directory=/var/lib/orchestrator; fi
  room=$(df -Pk $directory 2> /dev/null | awk 'NR == 2 { print $4 }')
  if [ -n "$room" ]; then survey image_room "$room"; fi
fi

# Program that sets up the firewall, for the remedy if it blocks other hosts. The service of ufw also runs if ufw is off.
if grep -qs '^ENABLED=yes' /etc/ufw/ufw.conf; then
  survey firewall ufw
else
  for service in firewalld nftables netfilter-persistent; do
    if systemctl is-active --quiet $service 2> /dev/null; then survey firewall $service && break; fi
  done
fi
# Running containers, if a deploy restarts Docker to let it use GPUs, and the restart ends them.
answers='{{json .Runtimes}} {{.LiveRestoreEnabled}} {{.ContainersRunning}}'
if [ $gpus != 0 ] && docker=$(sudo -n docker info --format "$answers" 2> /dev/null); then
  case $docker in
    *'"nvidia"'* | *' true '*) ;;
    *[0-9]) survey containers "${docker##* }" ;;
  esac
fi
if [ ! -x /usr/bin/python3 ]; then survey python none; fi # Ansible needs it
if [ -x /opt/orchestrator/bin/python ]; then survey trainer yes; fi
if timeout 10 snap services docker.dockerd 2> /dev/null | grep -qw active; then survey docker_snap yes; fi
