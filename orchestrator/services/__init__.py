"""Services on the head that this machine uses: tunnels, passwords, JupyterLab."""
