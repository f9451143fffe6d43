"""Prometheus' HTTP API, as far as it is asked here (https://prometheus.io/docs/prometheus/2.45/querying/api/).

Over requests: the library that there is for it, prometheus-api-client, adds neither types nor a time limit of its own.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Any, Literal, TypeVar

import requests
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from orchestrator.errors import ContractError, OrchestratorError, command

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 60.0
ANSWER_BYTES = 256 << 20  # a million samples have a fifth of it
CHUNK = 1 << 16
NAME = "__name__"
Number = Annotated[float, BeforeValidator(float)]  # Prometheus writes "NaN", "+Inf" and "-Inf" too
Sample = tuple[float, Number]
Answered = TypeVar("Answered")


@dataclass(frozen=True)
class Series:
    """A metric's name, its labels, and samples (unix seconds, value) in the order of time; at least one."""

    name: str
    labels: dict[str, str]
    samples: list[Sample]

    @property
    def value(self) -> float:
        """The latest."""
        return self.samples[-1][1]

    @property
    def rank(self) -> int:
        """The number in the label of that name. Raises ContractError if it holds none."""
        text = self.labels.get("rank", "")
        if not (text.isdecimal() and len(text) < 10):
            raise ContractError(f"Prometheus has a series of rank {text[:50]!r}: somebody else may control it")
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
    """A server at ``address``, asked until ``until`` (of time.monotonic) about the cluster called ``cluster``.

    Every method raises OrchestratorError where it does not answer in time or refuses, ContractError where the answer
    has another shape.
    """

    def __init__(self, address: str, cluster: str = "default", until: float = math.inf) -> None:
        self.address, self.cluster, self.until = address, cluster, until
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy of the user's is not on the way to this machine

    def __enter__(self) -> "Prometheus":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._session.close()

    def query(self, expression: str, at: float | None = None) -> list[Series]:
        """An instant vector, each series with one sample, as of ``at`` (unix seconds; default: its own now)."""
        given = {"query": expression, **({} if at is None else {"time": at})}
        return [_series(one) for one in self._ask("query", given, _Data).result]

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """Values from ``start`` to ``end`` (unix seconds), every ``step`` seconds."""
        given = {"query": expression, "start": start, "end": end, "step": step}
        return [_series(one) for one in self._ask("query_range", given, _Data).result]

    def listed(self, selector: str, start: float, end: float) -> list[dict[str, str]]:
        """The labels, the name among them, of every series that ``selector`` finds in a span of time."""
        return self._ask("series", {"match[]": selector, "start": start, "end": end}, list[dict[str, str]])

    def label_values(self, label: str, selector: str) -> list[str]:
        """What a label has ever been in what is kept."""
        return self._ask(f"label/{label}/values", {"match[]": selector}, list[str])

    def now(self) -> float:
        """The server's clock, in unix seconds."""
        return self.query("vector(time())")[0].value

    def _ask(self, path: str, given: Mapping[str, Any], shape: type[Answered]) -> Answered:
        code, content = self._get(f"{self.address}/api/v1/{path}", given)
        try:
            envelope = _Envelope.model_validate_json(content)
            if envelope.status == "error":
                raise OrchestratorError(
                    f"Prometheus refuses {given}: {envelope.error}", self._remedy("deploy", "heals")
                )
            return TypeAdapter(shape).validate_python(envelope.data)
        except ValidationError as error:
            raise ContractError(f"Prometheus answers {code} with another shape: {error}") from error

    def _get(self, url: str, given: Mapping[str, Any]) -> tuple[int, bytes]:
        """The HTTP status, and the body."""
        seconds = min(ANSWER_SECONDS, self.until - time.monotonic())
        try:
            if seconds <= 0:
                raise requests.Timeout("there is no time left")
            timeout = (CONNECT_SECONDS, seconds)
            with self._session.get(url, params=given, timeout=timeout, stream=True) as answer:
                return answer.status_code, _bounded(answer)
        except requests.RequestException as error:
            raise OrchestratorError(f"Prometheus does not answer: {error}", self._remedy("status", "shows")) from error

    def _remedy(self, word: str, does: str) -> str:
        return f"{command(word, self.cluster)} {does} the head"


def _bounded(answer: requests.Response) -> bytes:
    """The body. Raises ContractError if it is too large: somebody else may control the head."""
    content = bytearray()
    for piece in answer.iter_content(CHUNK):
        content += piece
        if len(content) > ANSWER_BYTES:
            raise ContractError(f"Prometheus answers with more than {ANSWER_BYTES >> 20} MiB")
    return bytes(content)


def _series(found: _Result) -> Series:
    labels = {key: text for key, text in found.metric.items() if key != NAME}
    return Series(found.metric.get(NAME, ""), labels, [found.value] if found.value else found.values)
