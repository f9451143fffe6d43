"""Models of the inputs of a prediction, and of the prediction that is saved with a run."""

from typing import NamedTuple

from pydantic import Field

from orchestrator.schema.file_model import File, Time


class Ready(NamedTuple):
    """Gradients of ``bytes`` in float32, all computed ``seconds`` before the last gradient of the step (median)."""

    bytes: int
    seconds: float


class Profile(File):
    """Content of profile.json, written by a training run of one rank: its steps without communication.

    Attributes:
        run: Name of the run.
        model: Network.
        dataset: Data set.
        image_size: Height and width of the images in pixels.
        classes: Number of classes.
        batch: Images of a backward pass.
        precision: Arithmetic of the layers.
        threads: Cores that the rank computed with.
        on_gpu: Whether a GPU computed.
        gradients: In the order in which they are ready.
        steps: Seconds of steps, in their order, without the run's first.
    """

    run: str
    model: str
    dataset: str
    image_size: int
    classes: int
    batch: int = Field(gt=0)
    precision: str
    threads: int
    on_gpu: bool
    gradients: list[Ready]
    steps: list[float]


class Predicted(File):
    """Content of prediction.json in this machine's directory of a run: images/s of all ranks with a 90 % band.

    ``made`` is when, in Unix time, ``profile`` the run that it is made from, and ``link`` what the link is known from.
    """

    images_per_second: float = Field(gt=0)
    low: float
    high: float
    efficiency: float
    ranks: int
    made: Time
    profile: str
    link: str
