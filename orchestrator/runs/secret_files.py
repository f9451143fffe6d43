"""Detect files with keys or passwords by name and content: all users of a cluster can read the files sent to it."""

import os
import re
from fnmatch import fnmatch
from pathlib import Path

NAMES = (
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk", "*.kdbx", "*.ovpn"),
    *("*credentials", "*credentials.json", "*credentials.yaml", "*credentials.csv", "client_secret*.json"),
    *("kubeconfig", "*.kubeconfig", "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", "kaggle.json"),
    *("*.env", "*netrc", "*.htpasswd", "secrets.yaml", "secrets.yml", "secrets.json", "secrets.toml"),
    *("cluster.yaml", "*openrc*.sh"),
    *(f"{name}.{kind}" for name in ("clouds", "clouds-public", "secure") for kind in ("yaml", "yml", "json")),
)
SSH_KEY = re.compile(r"id_[^.]+")  # id_rsa, but no id_rsa.pub and no id_table.csv
VARIABLES = (
    *("OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "OS_CLIENT_VENDOR_FILE", "KUBECONFIG"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE"),
)
SCANNED_BYTES = 1 << 20  # of each file
# A file that matches all patterns of a line is this kind of file.
CONTENTS: dict[str, tuple[bytes, ...]] = {
    "a private key": (rb"^-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",),
    "a private key of PuTTY": (rb"^PuTTY-User-Key-File-\d",),
    "a key of a service account": (rb'"private_key"\s*:\s*"-----BEGIN',),
    "credentials of Google": (rb'"client_secret"\s*:', rb'"refresh_token"\s*:'),
    "credentials of OpenStack": (
        rb"^\s*[\"']?auth_url[\"']?\s*:",
        rb"^\s*[\"']?(?:password|application_credential_secret)[\"']?\s*:",
    ),
    "a password of OpenStack": (  # in a script for a shell, unless it is asked for
        rb"^\s*(?:export\s+)?OS_(?:PASSWORD|APPLICATION_CREDENTIAL_SECRET|TOKEN)=[\"']?[^\s\"'$<`]",
    ),
    "credentials of AWS": (rb"^\[[^\]\n]+\]\s*$", rb"^\s*aws_secret_access_key\s*=\s*[\w/+]+\s*$"),
    "a secret key of AWS": (rb"(?i:secret_?access_?key)[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9/+]{40}(?![\w/+=])",),
    "credentials of Kubernetes": (rb"^\s*(?:client-key-data|token)\s*:", rb"^\s*kind\s*:\s*Config\s*$"),
    "a state of Terraform": (rb'"terraform_version"\s*:', rb'"lineage"\s*:'),
}


def named(*files: Path | None) -> set[Path]:
    """Return the files that environment variables name, and ``files``: a cluster.yaml under another name, settings."""
    paths = [os.environ.get(name) for name in VARIABLES]
    return {Path(path).resolve() for path in (*paths, *files) if path}


def reason(path: Path) -> str:
    """Return why the regular file ``path`` holds credentials, "" if it does not. Raises OSError."""
    name = path.name.lower()
    if SSH_KEY.fullmatch(name) or any(fnmatch(name, pattern) for pattern in NAMES):
        return "files of this name contain credentials"
    with path.open("rb") as file:
        content = file.read(SCANNED_BYTES)
    for what, patterns in CONTENTS.items():
        if all(re.search(pattern, content, re.MULTILINE) for pattern in patterns):
            return f"it holds {what}"
    return ""
