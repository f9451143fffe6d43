"""Requirements of the trainer's container on a host. Each finding has a remedy."""

import shlex
from collections.abc import Iterator, Sequence

from orchestrator.config import Config
from orchestrator.providers import trainer_image
from orchestrator.providers.hosts.survey_answers import ACCOUNT, HostSurvey, SurveyedHost

Findings = Iterator[tuple[str, str]]


def problems(survey: HostSurvey, with_gpus: bool) -> Findings:
    """Yield what keeps the trainer's container from running on a host."""
    yield from _links(survey)
    yield from _docker(survey)
    yield from _disk(survey, with_gpus)


def _links(survey: HostSurvey) -> Findings:
    """Yield links whose real paths do not exist in the trainer container, where programs start in real paths."""
    lacking = "which does not exist in the trainer container"
    if survey.real_shared not in ("", "/shared"):
        line = shlex.quote(f"{survey.real_shared} /shared none bind,_netdev 0 0")
        yield (
            f"its /shared is a link to {survey.real_shared}, {lacking}",
            f"there: `sudo rm /shared && sudo mkdir /shared && echo {line} | sudo tee -a /etc/fstab && "
            "sudo mount /shared` mounts it instead",
        )
    if survey.account and survey.real_home not in ("", survey.account[-2]):
        yield (
            f"the home directory {survey.account[-2]} of its account {ACCOUNT} is in {survey.real_home}, {lacking}",
            f"there: `sudo usermod --home {shlex.quote(survey.real_home)} {ACCOUNT}`",
        )


def _docker(survey: HostSurvey) -> Findings:
    """Yield a Docker that sees only home directories, and leaves no socket to the one that a deploy installs."""
    if survey.docker_snap:
        yield (
            "its Docker is a snap, which `deploy` cannot use",
            "there: `sudo snap remove docker` removes it with its containers and images, then `deploy` installs "
            "Docker's package; or leave the host out",
        )


def _disk(survey: HostSurvey, with_gpus: bool) -> Findings:
    """Yield a disk that the trainer's image would fill; often it is the disk of the whole system."""
    least = trainer_image.LEAST_ROOM[with_gpus]
    if survey.image_room is not None and survey.image_room < least << 20:
        free = f"{survey.image_room / 2**20:.1f}"
        yield (
            f"{free} GiB are free for /var/lib/orchestrator, the trainer's image needs {least} GiB",
            "free space there, or use another disk, for example that of /data, "
            "there: `sudo mkdir -p /data/orchestrator /var/lib/orchestrator && "
            "echo '/data/orchestrator /var/lib/orchestrator none bind 0 0' | "
            "sudo tee -a /etc/fstab && sudo mount /var/lib/orchestrator`",
        )


def notes(surveyed: Sequence[SurveyedHost], config: Config) -> Iterator[str]:
    """Yield what a deploy does to programs of other people on the hosts."""
    if config.hosts.trainer != "container" or config.gpu.driver == "none":
        return
    for host in surveyed:
        if host.survey and host.survey.containers:
            yield (
                f"note: {host.login}: the deploy restarts Docker, which ends {host.survey.containers} running"
                f' container{"s" * (host.survey.containers != 1)}: `"live-restore": true` in /etc/docker/daemon.json'
                " there, and `sudo systemctl reload docker`, keep them"
            )
