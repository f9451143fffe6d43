"""The ssh key pair of a cluster."""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from orchestrator import state
from orchestrator.errors import StateError, command
from orchestrator.schema.bounded_files import Unreadable, read_bytes

MOST = 1 << 16  # bytes


def public_half(path: Path) -> str:
    """Return the public key, in authorized_keys format, of the private key at ``path`` (ed25519, mode 0600).

    The key is generated if ``path`` does not exist. Raises StateError if it cannot be read.
    """
    if not path.exists():
        new = Ed25519PrivateKey.generate()
        state.replace(path, new.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode())
    try:
        key = load_ssh_private_key(read_bytes(path, MOST), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        reason = error.reason if isinstance(error, Unreadable) else "it is no private key of OpenSSH"
        remedy = f"restore it from a copy; without it, {command('teardown', path.parents[1].name)} and deploy again"
        raise StateError(f"{path} cannot be read: {reason}", remedy) from error
    return f"{key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()} orchestrator"
