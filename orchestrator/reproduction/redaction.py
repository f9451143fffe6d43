"""Keep secrets out of an exported run: values that this machine knows, passwords in addresses, and known tokens."""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

REMOVED = b"[removed]"
SHORTEST = 6  # characters: shorter values occur by chance
NAMES = re.compile(  # but no TOKENIZERS_PARALLELISM and no MAX_TOKENS
    r"passw|passphrase|(?:^|_|ssh)pass$|_pwd$|secret|token(?!s$|i[sz])|(?:api|access|auth)_?tokens$"
    r"|(?:^|_|api|access|private)key(?:$|_)|credential|connection_string|authorization|bearer|_auth$",
    re.IGNORECASE,
)
# Name and password, or a token, of an address; of others than web sites only with a password, for `git@` is none. The
# last @ before a slash ends them: passwords may have more.
USER = re.compile(
    rb"(?P<web>https?://)(?P<user>[^/\s'\"<>]+)@|(?P<other>\b\w[\w+.-]{1,20}://)(?P<both>[^/\s@:'\"<>]*:[^/\s'\"<>]+)@"
)
QUERY = re.compile(
    rb"(?P<name>[?&](?:[\w-]{0,20}(?:token|secret|signature|password)|(?:api[_-]?)?key|sig)=)(?P<value>[^&\s'\"<>]+)",
    re.IGNORECASE,
)

# Tokens of GitHub, GitLab, Hugging Face, AWS, OpenAI and Anthropic, Slack, Google, PyPI, npm, Docker and Stripe, JSON
# Web Tokens, and private keys.
TOKEN = re.compile(
    rb"\b(?:gh[oprsu]_\w{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    rb"|sk-[\w-]{32,}|xox[abeoprs]-[\w-]{10,}|AIza[\w-]{35}|ya29\.[\w-]{20,}|pypi-[\w-]{50,}"
    rb"|npm_[A-Za-z0-9]{36}|dckr_[op]at_[\w-]{20,}|[rs]k_live_\w{20,}"
    rb"|(?<!-)eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,})"
    rb"|-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){1,20000}"
    rb"-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
)


def passwords(config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> set[str]:
    """Return the passwords in a cluster's configuration and in environment variables."""
    values = {value for name, value in environment.items() if NAMES.search(name) and not os.path.lexists(value)}
    return {value for value in values | set(_secrets(config)) if len(value) >= SHORTEST}


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts in ``value`` whose keys name a secret."""
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        yield from _secrets(inner, str(key))
    for inner in value if isinstance(value, list) else ():
        yield from _secrets(inner, name)
    if isinstance(value, str) and NAMES.search(name):
        yield value


def without(files: Mapping[str, bytes], secrets: Iterable[str]) -> tuple[dict[str, bytes], list[str]]:
    """Remove secrets from files.

    Args:
        files: Contents by name.
        secrets: Values to remove, however they are encoded; those in addresses, tokens of known services and private
            keys are found and removed as well.

    Returns:
        The contents without secrets, and the names of the files that had some.
    """
    inside = {part.decode(errors="replace") for content in files.values() for part in _found(content)}
    known = {*secrets, *inside, *map(unquote, inside)}
    forms = {form for secret in known if len(secret) >= SHORTEST for form in _forms(secret)}
    pattern = re.compile(b"|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None
    clean = {name: _clean(content, pattern) for name, content in files.items()}
    return clean, sorted(name for name, content in files.items() if clean[name] != content)


def _clean(content: bytes, pattern: "re.Pattern[bytes] | None") -> bytes:
    content = USER.sub(lambda match: match["web"] or match["other"], content)
    content = QUERY.sub(lambda match: match["name"] + REMOVED, content)
    return pattern.sub(REMOVED, content) if pattern else content


def _found(content: bytes) -> Iterator[bytes]:
    """Yield tokens in a file, and passwords in its addresses; a user name with a password is no secret."""
    for match in USER.finditer(content):
        name, _, password = (match["user"] or match["both"]).partition(b":")
        yield password or name
    yield from (match["value"] for match in QUERY.finditer(content))
    yield from (match[0] for match in TOKEN.finditer(content))


def _forms(secret: str) -> Iterator[bytes]:
    """Yield a secret as it may stand in a file: plain, in JSON, in an address, in base64 with anything around it."""
    text = secret.encode(errors="surrogateescape")
    yield from (text, quote(secret, safe="", errors="replace").encode())
    for ascii_only in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1].encode(errors="surrogateescape")
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + text)
        stable = coded[(0, 2, 3)[before] : (before + len(text)) * 8 // 6]
        yield from (stable, stable.translate(bytes.maketrans(b"+/", b"-_")))
