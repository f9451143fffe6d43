"""Images of the Docker Engine: look for one, pull, import, build and export it."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from orchestrator.docker import cluster_resources, silence_timeout
from orchestrator.docker.engine import BUILD_SECONDS, Engine, asking, faults, if_it_exists, reason


def find(engine: Engine, reference: str) -> str | None:
    """Return the id of the image with that name, tag or digest; None if the engine does not have it."""
    with asking("look for an image", "image", "inspect", reference), if_it_exists():
        return str(engine.client.images.get(reference).id)
    return None


def pull(engine: Engine, reference: str, on_status: Callable[[str], None], seconds: float = BUILD_SECONDS) -> str:
    """Pull an image; the engine checks a digest in its name.

    Args:
        engine: Docker Engine that pulls it.
        reference: Name of the image with tag or digest.
        on_status: Called with each status message.
        seconds: Longest silence of the registry.

    Returns:
        The reason of a failure; "" after success.
    """

    def silent(passed: float) -> None:
        raise TimeoutError(f"no answer for {passed:.0f} s")

    failures: tuple[type[Exception], ...] = (*faults(), OSError)
    try:
        messages = engine.with_credentials(lambda api: api.pull(reference, stream=True, decode=True))
        for message in silence_timeout.with_silence_timeout(messages, seconds, silent):
            if "error" in message:
                return str(message["error"])
            on_status(message.get("status", ""))
    except failures as error:
        return reason(error)
    return ""


def load_root_filesystem(engine: Engine, archive: IO[bytes], tag: str) -> None:
    """Create image ``tag`` with one layer from a tar archive.

    Args:
        engine: Docker Engine that gets the image.
        archive: Files of the image.
        tag: Tag of the image.

    Raises:
        CommandFailed: The engine refuses the archive.
    """
    repository, _, version = tag.partition(":")
    with asking("import an image", "import", "-", tag):
        engine.patient.api.import_image_from_data(archive.read(), repository=repository, tag=version)


def build(
    engine: Engine,
    context: IO[bytes],
    tag: str,
    target: str | None,
    arguments: Mapping[str, str],
    dockerfile: str = "Dockerfile",
) -> Iterator[dict[str, Any]]:
    """Build an image; closing the iterator ends the build.

    Args:
        engine: Docker Engine to build with.
        context: Build context, a tar archive with the Dockerfile.
        tag: Tag of the image.
        target: Target in the Dockerfile; None for its last stage.
        arguments: Build arguments by name.
        dockerfile: Name of the Dockerfile in the context.

    Yields:
        The engine's messages, with the key "stream" or "error".

    Raises:
        CommandFailed: The engine, or the connection to it, fails.
    """
    with asking("build an image", "build", "--tag", tag):
        yield from engine.with_credentials(
            lambda api: api.build(
                fileobj=context,
                custom_context=True,
                tag=tag,
                target=target,
                dockerfile=dockerfile,
                buildargs=dict(arguments),
                # The host's, for this machine's MTU, and a proxy on its localhost; refused with user namespaces.
                network_mode=None if engine.remaps_users else "host",
                rm=True,
                forcerm=True,
                decode=True,
                labels={cluster_resources.ID_LABEL: "image"},
                timeout=BUILD_SECONDS,
            )
        )


def export(engine: Engine, tag: str) -> Iterator[bytes]:
    """Yield the files of image ``tag`` as pieces of a tar archive for `docker import`.

    The archive is unpacked once; that of `docker save` is first written to disk and then unpacked from there.
    """
    name = f"orchestrator-export-{os.getuid()}-{tag.partition(':')[2]}"  # other users of the engine may export it too
    cluster_resources.remove(engine, "container", name)  # left by a killed command
    with asking("export an image", "create", tag):
        container = engine.client.api.create_container(tag, ["true"], name=name)
    try:
        with asking("export an image", "export", name):
            yield from engine.patient.api.export(container["Id"])
    finally:
        cluster_resources.remove(engine, "container", name)
