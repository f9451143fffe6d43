"""Rules of a host's firewall: how survey.sh reads them, and which block other hosts."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.providers import hosts
from orchestrator.providers.hosts import firewall_rules
from tests.unit.providers.test_hosts_preflight import host

STATUS = """Status: active
Logging: on (low)
Default: {default} (incoming), allow (outgoing), disabled (routed)
New profiles: skip

To                         Action      From
--                         ------      ----
22/tcp                     ALLOW IN    Anywhere
Anywhere                   ALLOW IN    10.0.0.0/24                # the lab
1024:65535/tcp             ALLOW IN    192.168.7.10
Anywhere                   DENY IN     172.16.0.1
22/tcp (v6)                ALLOW IN    Anywhere (v6)
"""


def surveyed(root: Path, status: str) -> list[str]:
    """Run survey.sh on a machine whose ufw is on and has a status. Return its lines about ufw."""
    (root / "bin").mkdir()
    (root / "ufw.conf").write_text("ENABLED=yes\n")
    (root / "status").write_text(status)
    sudo = root / "bin" / "sudo"
    sudo.write_text(f"#!/bin/sh\nif [ $2 = ufw ]; then cat {root}/status; fi\n")
    sudo.chmod(0o755)
    script = Path(hosts.__file__).with_name("survey.sh").read_text().replace("/etc/ufw/", f"{root}/")
    environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}"}
    ran = subprocess.run(["sh", "-c", script], env=environment, check=True, capture_output=True, text=True)
    return [line for line in ran.stdout.splitlines() if line.startswith("survey ufw")]


def test_survey_lists_the_networks_that_ufw_admits_to_all_ports(tmp_path: Path) -> None:
    assert surveyed(tmp_path, STATUS.format(default="deny")) == [
        "survey ufw active",
        "survey ufw_admits 10.0.0.0/24 192.168.7.10",
    ]


@pytest.mark.parametrize("status", ["Status: inactive\n", STATUS.format(default="allow")])
def test_firewall_that_blocks_nothing_is_not_reported(tmp_path: Path, status: str) -> None:
    assert surveyed(tmp_path, status) == []


@pytest.mark.parametrize("admits", ["10.0.0.0/24", "10.0.0.11", "Anywhere", "10.0.0.11/tcp", "fd00::/8 10.0.0.8/29"])
def test_host_that_admits_the_others_is_accepted(admits: str) -> None:
    other = host("demo-worker-0", private_address="10.0.0.11")
    assert firewall_rules.blocked([host(ufw="active", ufw_admits=admits), other]) == []


def test_blocked_hosts_are_named_with_the_command_that_admits_them() -> None:
    others = [host(f"demo-worker-{number}", private_address=f"10.0.0.{11 + number}") for number in range(2)]
    [error] = firewall_rules.blocked([host(ufw="active", ufw_admits="10.0.1.0/24"), *others])
    assert "lab@10.0.0.10: its firewall ufw does not admit 10.0.0.11, 10.0.0.12 to all ports" in error.message
    assert error.hint == "there: `sudo ufw allow from 10.0.0.11 && sudo ufw allow from 10.0.0.12`"
