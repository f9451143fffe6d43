"""The command that opens a tunnel to JupyterLab."""

from typing import Annotated

import typer

from orchestrator.cli import chosen_cluster, output
from orchestrator.cli.held_tunnel import held_tunnel
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.services import jupyter, tunnel

Port = Annotated[int | None, typer.Option(min=1, max=65535, help="Port on this machine; default: 8888, or a free one.")]
Open = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]


def register(app: typer.Typer) -> None:
    app.command(name="notebook")(open_notebook)


def open_notebook(
    port: Port = None, browser: Open = False, config_file: ConfigFile = None, name: Name = None, json: Json = False
) -> None:
    """Open a tunnel to JupyterLab on the head, and print its address and password; Ctrl-C closes it."""
    state_dir, record, cluster = chosen_cluster.deployed(config_file, name)
    password, chosen = jupyter.password(state_dir, record), tunnel.free_port(port, jupyter.SERVER.port)
    address = f"http://{tunnel.LOCALHOST}:{chosen}/lab"
    ports, browse = {jupyter.SERVER: chosen}, address if browser else None
    with held_tunnel(state_dir, cluster, ports, jupyter.ANSWER_SECONDS, browse):
        if json:
            output.as_json({"address": address, "password_file": state_dir.notebook})
        else:
            output.line(f"address: {address}\npassword: {password} (kept in {state_dir.notebook})")
