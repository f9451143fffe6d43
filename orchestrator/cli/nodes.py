"""Commands that give access to the nodes by other tools: ssh, Horovod, Ansible."""

import shlex
from typing import Annotated

import typer

from orchestrator import errors, process, ssh
from orchestrator.ansible import inventory as inventories
from orchestrator.cli import chosen_cluster, output, shell_completion
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.lifecycle import host_vars
from orchestrator.runs.launchers import hostfile as hostfiles


def register(app: typer.Typer) -> None:
    app.command(name="ssh")(terminal)
    app.command()(hostfile)
    app.command()(inventory)


def terminal(
    node: Annotated[
        str | None,
        typer.Argument(
            help="Name of the node, or `head`; default: the head, unless a COMMAND follows.",
            autocompletion=shell_completion.nodes,
        ),
    ] = None,
    command: Annotated[list[str] | None, typer.Argument(help="Command to run on the node; default: a shell.")] = None,
    config_file: ConfigFile = None,
    name: Name = None,
) -> None:
    """Open a terminal on a node, or run one command there: `orchestrator ssh NODE -- COMMAND`."""
    state_dir, _, cluster = chosen_cluster.deployed(config_file, name)
    chosen = cluster.head if node is None else chosen_cluster.node_named(node, cluster)
    process.require("ssh", "`sudo apt-get install openssh-client`")
    process.replace(ssh.client_command(state_dir, cluster, chosen, [shlex.join(command)] if command else []))


def hostfile(config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """Print Horovod's hostfile."""
    _, _, cluster = chosen_cluster.deployed(config_file, name)
    if json:
        return output.as_json([{"address": n.private_address, "slots": n.slots} for n in cluster.rank_nodes.values()])
    print(hostfiles.text(cluster), end="")


def inventory(config_file: ConfigFile = None, name: Name = None, json: Json = True) -> None:
    """Print the Ansible inventory as JSON, for `ansible -i`."""
    state_dir, record, cluster = chosen_cluster.deployed(config_file, name)
    unknown = [node for node, described in cluster.nodes.items() if described.id not in record.host_keys]
    if unknown:
        problem = f"the host keys of {', '.join(unknown)} are not known yet"
        raise errors.StateError(problem, f"{errors.command('deploy', state_dir.name)} finishes the cluster")
    variables = host_vars.for_ansible(state_dir, record, cluster)
    output.as_json(inventories.inventory(cluster, state_dir.key, state_dir.known_hosts, record.host_keys, variables))
