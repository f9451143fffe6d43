# Prints facts about this machine, one per line. Changes nothing, and uses sudo only to test whether it works.
fact() { printf 'fact %s %s\n' "$1" "$2"; }

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

fact system "$(. /etc/os-release 2> /dev/null && echo "${ID:-} ${VERSION_ID:-}")"
fact architecture "$(uname -m)"
fact id "$(cat /etc/machine-id /etc/ssh/ssh_host_*_key.pub 2> /dev/null | sha256sum | cut -c 1-16)"
fact boot "$(cat /proc/sys/kernel/random/boot_id)"
fact cpus "$(nproc)"
fact gpus "$gpus"
fact gpu "$model"
fact connection "$SSH_CONNECTION"
fact addresses "$(hostname -I)"
fact ids "$(echo $(getent passwd | cut -d : -f 3) $(getent group | cut -d : -f 3))"

if message=$(sudo -n true 2>&1); then fact sudo yes; else fact sudo "$(echo $message)"; fi
if entry=$(getent passwd orchestrator); then
  fact account "$entry"
  if sudo -n -u orchestrator sudo -n true > /dev/null 2>&1; then fact account_sudo yes; fi
fi
if [ -r /etc/orchestrator/deployment ]; then sed 's/^/fact mark_/' /etc/orchestrator/deployment; fi

if [ -d /shared ]; then
  # Number of entries, without notebooks, which a teardown keeps.
  fact shared "$(ls -A /shared 2> /dev/null | grep -vcxE 'lost[+]found|notebooks')"
  if [ -e /shared/.orchestrator-kept ]; then fact shared_kept yes; fi
  sed -n 's/^cluster /fact shared_cluster /p; s/^id /fact shared_id /p' /shared/.orchestrator-deployment 2> /dev/null
fi
if [ -x /opt/orchestrator/bin/python ]; then fact trainer yes; fi
