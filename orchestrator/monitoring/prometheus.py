"""Client of the part of Prometheus' HTTP API used here (https://prometheus.io/docs/prometheus/2.45/querying/api/).

It uses requests: the library prometheus-api-client adds neither types nor a time limit.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from orchestrator.errors import ContractError, OrchestratorError, command
from orchestrator.lazy_imports import LazyModule
from orchestrator.schema import bounded_files
from orchestrator.schema.file_model import LATEST, Time

if TYPE_CHECKING:
    import requests
else:
    requests = LazyModule("requests")

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 60.0
ANSWER_BYTES = 256 << 20  # a million samples take a fifth of it
CHUNK = 1 << 16
NAME = "__name__"
MOST = 1e18  # largest usable value: sums and products of such values are finite
Answered = TypeVar("Answered")


def _number(text: object) -> float:
    """Parse a value as Prometheus writes it: text, including "NaN", "+Inf" and "-Inf"."""
    if not isinstance(text, str):
        raise ValueError("not a number in quotes")
    return float(text)


Sample = tuple[Time, Annotated[float, BeforeValidator(_number)]]


def is_usable(value: float) -> bool:
    """Tell whether a value is a number fit for arithmetic: the head may be compromised."""
    return abs(value) <= MOST


@dataclass(frozen=True)
class Series:
    """A time series: metric name, labels, and at least one sample (unix seconds, value) in order of time."""

    name: str
    labels: dict[str, str]
    samples: list[Sample]

    @property
    def value(self) -> float:
        """Return the latest value."""
        return self.samples[-1][1]

    @property
    def rank(self) -> int:
        """Return the number in the label "rank". Raises ContractError if there is none."""
        text = self.labels.get("rank", "")
        if not (text.isdecimal() and len(text) < 10):
            raise ContractError(f"Prometheus has a series of rank {text[:50]!r}: another program may control it")
        return int(text)


class _Envelope(BaseModel):
    status: Literal["success", "error"]
    data: Any = None
    error: str = ""


class _Result(BaseModel):
    metric: dict[str, str]
    value: Sample | None = None
    values: list[Sample] = []


class _Data(BaseModel):
    result: list[_Result]


class Prometheus:
    """A client of the server at ``address``, usable until ``until`` (of time.monotonic), for the cluster ``cluster``.

    Every method raises OrchestratorError if the server does not answer in time or refuses, and ContractError if the
    answer has another shape.
    """

    def __init__(self, address: str, cluster: str = "default", until: float = math.inf) -> None:
        self.address, self.cluster, self.until = address, cluster, until
        self._session = requests.Session()
        self._session.trust_env = False  # never use the user's proxy for this machine

    def __enter__(self) -> "Prometheus":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._session.close()

    def query(self, expression: str) -> list[Series]:
        """Query an instant vector, one sample per series, as of the server's now."""
        return [_series(item) for item in self._ask("query", {"query": expression}, _Data).result]

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """Query values over a span of time.

        Args:
            expression: PromQL.
            start: Begin, in unix seconds.
            end: End, in unix seconds.
            step: Seconds between values.

        Returns:
            One series per set of labels.

        Raises:
            OrchestratorError: The server does not answer in time or refuses.
            ContractError: The answer has another shape.
        """
        parameters = {"query": expression, "start": start, "end": end, "step": step}
        return [_series(item) for item in self._ask("query_range", parameters, _Data).result]

    def listed(self, selector: str, start: float, end: float) -> list[dict[str, str]]:
        """List the series that ``selector`` matches in a span of time.

        Args:
            selector: Series selector of PromQL.
            start: Begin, in unix seconds.
            end: End, in unix seconds.

        Returns:
            The labels of each series, with its name under "__name__".

        Raises:
            OrchestratorError: The server does not answer in time or refuses.
            ContractError: The answer has another shape.
        """
        return self._ask("series", {"match[]": selector, "start": start, "end": end}, list[dict[str, str]])

    def label_values(self, label: str, selector: str) -> list[str]:
        """List all values of a label in the stored series that ``selector`` matches."""
        return self._ask(f"label/{label}/values", {"match[]": selector}, list[str])

    def now(self) -> float:
        """Return the server's clock, in unix seconds."""
        answer = self.query("vector(time())")
        if len(answer) != 1 or not 0 <= answer[0].value <= LATEST:
            raise ContractError("the clock of Prometheus is missing or wrong: another program may control it")
        return answer[0].value

    def _ask(self, path: str, parameters: Mapping[str, Any], shape: type[Answered]) -> Answered:
        code, content = self._get(f"{self.address}/api/v1/{path}", parameters)
        try:
            envelope = _Envelope.model_validate_json(content)
            if envelope.status == "error":
                raise OrchestratorError(
                    f"Prometheus refuses {parameters}: {envelope.error}", self._remedy("deploy", "repairs")
                )
            return TypeAdapter(shape).validate_python(envelope.data)
        except ValidationError as error:
            raise ContractError(
                f"Prometheus answers {code} in an unknown form: {bounded_files.problems(error)}"
            ) from error

    def _get(self, url: str, parameters: Mapping[str, Any]) -> tuple[int, bytes]:
        """Return the HTTP status and the body."""
        seconds = min(ANSWER_SECONDS, self.until - time.monotonic())
        try:
            if seconds <= 0:
                raise requests.Timeout("there is no time left")
            return _within(seconds, lambda: self._read(url, parameters, seconds))
        except requests.RequestException as error:
            raise OrchestratorError(f"Prometheus does not answer: {error}", self._remedy("status", "shows")) from error

    def _read(self, url: str, parameters: Mapping[str, Any], seconds: float) -> tuple[int, bytes]:
        timeout = (CONNECT_SECONDS, seconds)
        with self._session.get(url, params=parameters, timeout=timeout, stream=True) as answer:
            return answer.status_code, _bounded(answer)

    def _remedy(self, word: str, does: str) -> str:
        return f"{command(word, self.cluster)} {does} the head"


def _within(seconds: float, read: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
    """Return the answer that ``read`` reads. Raises Timeout if it is not complete after ``seconds``.

    The limit of requests is for each part of an answer: a server or a link that sends slowly never reaches it.
    """
    result: futures.Future[tuple[int, bytes]] = futures.Future()

    def work() -> None:
        try:
            result.set_result(read())
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return result.result(seconds)
    except futures.TimeoutError:
        raise requests.Timeout(f"the answer is not complete after {seconds:.0f} s") from None


def _bounded(answer: "requests.Response") -> bytes:
    """Return the body. Raises ContractError if it is too large: the head may be compromised."""
    content = bytearray()
    for piece in answer.iter_content(CHUNK):
        content += piece
        if len(content) > ANSWER_BYTES:
            raise ContractError(f"Prometheus answers with more than {ANSWER_BYTES >> 20} MiB")
    return bytes(content)


def _series(result: _Result) -> Series:
    labels = {key: text for key, text in result.metric.items() if key != NAME}
    samples = [result.value] if result.value else result.values
    if not samples:
        raise ContractError(f"Prometheus has a series without a sample: {bounded_files.shown(result.metric)}")
    return Series(result.metric.get(NAME, ""), labels, samples)
