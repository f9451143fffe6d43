"""The command that opens a tunnel to JupyterLab."""

import sys
import webbrowser
from contextlib import suppress
from typing import Annotated

import typer

from orchestrator import progress
from orchestrator.cli import chosen_cluster, output
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.process.background import Background
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
    opened = tunnel.open_tunnel(state_dir, cluster, {jupyter.SERVER: chosen}, jupyter.ANSWER_SECONDS)
    with opened as open_tunnel, suppress(KeyboardInterrupt):
        if json:
            output.as_json({"address": address, "password_file": state_dir.notebook})
        else:
            output.line(f"address: {address}\npassword: {password} (kept in {state_dir.notebook})")
        hold(open_tunnel, address if browser else None)


def hold(open_tunnel: Background, address: str | None) -> None:
    """Keep a tunnel open, and open ``address``, if any, in the browser.

    Callers suppress KeyboardInterrupt from their first line of output on, as Ctrl-C is how the command ends.
    """
    sys.stdout.flush()
    progress.note("Ctrl-C closes the tunnel")
    if address and not webbrowser.open(address):
        progress.note("this machine has no browser")
    open_tunnel.wait(None)
