"""The cluster's own ssh key."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from orchestrator import state


def public_half(path: Path) -> str:
    """The public half, as authorized_keys wants it, of the private key at ``path`` (ed25519, mode 0600).

    The key is made where there is none.
    """
    if not path.exists():
        made = Ed25519PrivateKey.generate()
        state.replace(path, made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode())
    key = load_ssh_private_key(path.read_bytes(), password=None)
    return f"{key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()} orchestrator"
