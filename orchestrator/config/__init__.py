"""Configuration from cluster.yaml and flags: one model holds every default, and all problems are reported at once."""

from pathlib import Path

from orchestrator.config.hosts_section import Host
from orchestrator.config.key_errors import every_key, explain, is_section, is_set, nearest, template
from orchestrator.config.launch_section import Launch
from orchestrator.config.loader import load, name_in, stored, usable
from orchestrator.config.model import DEFAULT_NAME, PROVIDERS, Config, Framework
from orchestrator.config.monitoring_section import Monitoring, Receiver
from orchestrator.config.paths import exists, expanded, is_file, storable
from orchestrator.config.provider_sections import LEAST_CPUS, LEAST_MEMORY, Local
from orchestrator.config.section import NAME, NAME_RULE
from orchestrator.config.train_section import Train

__all__ = [
    "DEFAULT_NAME",
    "FILE",
    "LEAST_CPUS",
    "LEAST_MEMORY",
    "NAME",
    "NAME_RULE",
    "PROVIDERS",
    "Config",
    "Framework",
    "Host",
    "Launch",
    "Local",
    "Monitoring",
    "Receiver",
    "Train",
    "every_key",
    "exists",
    "expanded",
    "explain",
    "is_file",
    "is_section",
    "is_set",
    "load",
    "name_in",
    "nearest",
    "storable",
    "stored",
    "template",
    "usable",
]

FILE = Path("cluster.yaml")
