"""Build the images that nodes need, unless the Docker Engine has them."""

from dataclasses import replace
from pathlib import Path

from orchestrator import progress
from orchestrator.docker import base_image, build_progress_and_errors, context, disk_space, images
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError

# Bytes: both images, the builder's layers and some room.
NEEDED_SPACE = {
    "tensorflow-cpu": 8 << 30,
    "tensorflow-gpu": 24 << 30,
    "pytorch-cpu": 14 << 30,
    "pytorch-gpu": 24 << 30,
    "both-cpu": 18 << 30,
}
USUALLY = {"cpu": "five", "gpu": "ten"}  # minutes on 2 cores


def ensure(engine: Engine, target: str, variant: Variant, log: Path) -> str:
    """Build an image unless it exists.

    Args:
        engine: Docker Engine to build with.
        target: Target in the Dockerfile, "trainer" or "node".
        variant: Which image: base image, framework and accelerator.
        log: Log file of the build.

    Returns:
        The tag of the image.

    Raises:
        PreflightError: The disk has too little space, or the base image is not available.
        CommandFailed: The build failed.
    """
    name = context.tag(target, variant)
    if images.find(engine, name):
        return name
    disk_space.require(engine, NEEDED_SPACE[str(variant)])
    with context.context() as archive:
        user_image = _ensure_user_image(engine, variant, log) if variant.user_image else None
        arguments = {
            "BASE": user_image or base_image.provide(engine, variant.base_image, log),
            "FRAMEWORK": variant.framework,
            "ACCELERATOR": variant.accelerator,
            "DIGEST": context.digest(variant),
            **context.host_settings(),
        }
        dockerfile, minutes = (
            ("users-image.Dockerfile", "two") if user_image else ("Dockerfile", USUALLY[variant.accelerator])
        )
        with progress.step(f"Building image {name} (once; about {minutes} minutes on 2 cores)") as step:
            messages = images.build(engine, archive, name, target, arguments, dockerfile)
            build_progress_and_errors.follow(engine, log, step, messages)
    return name


def _ensure_user_image(engine: Engine, variant: Variant, log: Path) -> str:
    """Return the user's image: a local one, else pulled, or built from a Dockerfile on the trainer image."""
    name = context.user_image_tag(variant) if variant.dockerfile else str(variant.user_image)
    if images.find(engine, name):
        return name
    if variant.dockerfile:
        trainer = ensure(engine, "trainer", replace(variant, user_image=None), log)
        _build_user_image(engine, name, trainer, variant.dockerfile, log)
        return name
    with progress.step(f"Pulling {name}") as step:
        if reason := images.pull(engine, name, step.detail):
            raise PreflightError(
                f"image: this Docker Engine has no {name}, and no registry has it: {reason}", "check the name"
            )
    return name


def _build_user_image(engine: Engine, name: str, trainer: str, dockerfile: Path, log: Path) -> None:
    """Build a user's Dockerfile on the trainer image with this machine's CA certificates."""
    base = name.replace(":", "-base:")
    arguments = {"BASE": base, **context.host_settings()}
    with context.context(dockerfile) as archive, progress.step(f"Building image {name} of {dockerfile}") as step:
        messages = images.build(engine, context.base_of_user_image(), base, None, {"BASE": trainer})
        build_progress_and_errors.follow(engine, log, step, messages)
        messages = images.build(engine, archive, name, None, arguments, dockerfile.name)
        build_progress_and_errors.follow(engine, log, step, messages)
