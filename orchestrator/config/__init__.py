"""cluster.yaml and flags: one model, every problem reported at once, one place for every default."""

from pathlib import Path

from orchestrator.config.keys import every_key, explain, is_section, is_set, nearest, template
from orchestrator.config.monitoring import Monitoring, Receiver
from orchestrator.config.paths import expanded
from orchestrator.config.providers import LEAST_CPUS, LEAST_MEMORY, Host, Local
from orchestrator.config.reading import load, name_in, stored, usable
from orchestrator.config.sections import NAME, NAME_RULE, Launch, Train
from orchestrator.config.whole import DEFAULT_NAME, PROVIDERS, Config

__all__ = [
    "DEFAULT_NAME",
    "FILE",
    "LEAST_CPUS",
    "LEAST_MEMORY",
    "NAME",
    "NAME_RULE",
    "PROVIDERS",
    "Config",
    "Host",
    "Launch",
    "Local",
    "Monitoring",
    "Receiver",
    "Train",
    "every_key",
    "expanded",
    "explain",
    "is_section",
    "is_set",
    "load",
    "name_in",
    "nearest",
    "stored",
    "template",
    "usable",
]

FILE = Path("cluster.yaml")
