import time
from pathlib import Path
from contextlib import ExitStack
import pytest
from orchestrator import state
from orchestrator.providers.hosts import adoption
from tests.stand_ins import ssh_stand_in
from tests.unit.providers.test_hosts_removal import MACHINES, GIVEN

SSH = r"""
log=%s
for word; do before=$last; last=$word; done
case $last in
  *base64*)
    set -- $last
    script=$(echo "$2" | /usr/bin/base64 -d)
    case $script in
      *"Undoes adopt.sh"*) echo "$before" >> $log; echo "$script" | /usr/bin/head -3 >> $log ;;
    esac
    case $script in *"configured=yes"*) echo "its configuration could not be removed" >&2; exit 1;; esac ;;
  *BECOME-SUCCESS*)
    case "$*" in *Port=%s*) exit 255;; esac
    /bin/cat > /dev/null
    echo "$last" | /bin/grep -o 'BECOME-SUCCESS-[a-z]*' | /usr/bin/head -1
    echo '{"changed": false}' ;;
esac
"""

@pytest.mark.parametrize("broken", [True, False])
def test(stand_in, tmp_path, capsys, broken):
    with ExitStack() as stack:
        ports = [stack.enter_context(ssh_stand_in.listening(ssh_stand_in.honest))[0] for _ in MACHINES]
        machines = [m.model_copy(update={"address": "127.0.0.1", "port": p}) for m, p in zip(MACHINES, ports)]
        stand_in("ssh", SSH % (tmp_path / "log", ports[0] if broken else 9))
        lines = []
        t=time.time()
        adoption.release(state.for_cluster("demo"), "1a2b3c4d", GIVEN, dict.fromkeys(machines, True), lines.append)
        print(time.time()-t)
    print("\n".join(lines)); print((tmp_path / "log").read_text())
    o=capsys.readouterr(); print(o.out, o.err)
    for f in Path(state.for_cluster("demo").path).rglob("*"): 
        print(f)
        if "log" in f.name and f.is_file(): print(f.read_text()[-3000:])
    assert 0
