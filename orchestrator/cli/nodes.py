"""Commands that give access to the nodes by other tools: ssh, Horovod, Ansible."""

import shlex
from typing import Annotated

import typer

from orchestrator import cluster, config, process, ssh
from orchestrator.ansible import inventory as inventories
from orchestrator.cli import options, output
from orchestrator.cli.options import ConfigFile, Json, Name, completed
from orchestrator.errors import ConfigError
from orchestrator.lifecycle import host_vars
from orchestrator.schema.bounded import shown


def register(app: typer.Typer) -> None:
    app.command(name="ssh")(terminal)
    app.command()(hostfile)
    app.command()(inventory)


def terminal(
    node: Annotated[str | None, completed("Which node; default: the head.", options.node_names)] = None,
    command: Annotated[list[str] | None, typer.Argument(help="What to run there; default: a shell.")] = None,
    config_file: ConfigFile = None,
    name: Name = None,
) -> None:
    """Open a terminal on a node, or run one command there: `orchestrator ssh NODE -- COMMAND`."""
    place, _, made = options.deployed(config_file, name)
    chosen = made.head if node is None else node
    if chosen not in made.nodes:
        near = config.nearest(chosen, list(made.nodes))
        raise ConfigError([f"no node {shown(chosen)}{near} (nodes: {', '.join(made.nodes)})"])
    process.require("ssh", "`sudo apt-get install openssh-client`")
    process.replace(ssh.client_command(place, made, chosen, [shlex.join(command)] if command else []))


def hostfile(config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """Print Horovod's hostfile."""
    _, _, made = options.deployed(config_file, name)
    if json:
        return output.as_json([{"address": n.private_address, "slots": n.slots} for n in made.working.values()])
    print(cluster.hostfile(made), end="")


def inventory(config_file: ConfigFile = None, name: Name = None, json: Json = True) -> None:
    """Print the Ansible inventory, always as JSON, which `ansible -i` reads."""
    place, record, made = options.deployed(config_file, name)
    given = host_vars.for_ansible(place, record, made)
    output.as_json(inventories.inventory(made, place.key, place.known_hosts, record.host_keys, given))
