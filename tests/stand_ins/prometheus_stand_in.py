"""A stand-in for Prometheus: its HTTP API with a test's answers, without a query language.

Shapes are those of https://prometheus.io/docs/prometheus/2.45/querying/api/, compared with answers of Prometheus 2.42.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from orchestrator.monitoring.prometheus import NAME, Series

Answers = Mapping[tuple[str, str], Any]  # (path below /api/v1/, query) -> `data` of the answer
Requests = list[dict[str, str]]
NOW = 1_700_000_000.0  # unix seconds


def vector(*series: Series) -> dict[str, Any]:
    """Return the latest sample of each series."""
    return {"resultType": "vector", "result": [{**_metric(s), "value": _sample(*s.samples[-1])} for s in series]}


def matrix(*series: Series) -> dict[str, Any]:
    return {
        "resultType": "matrix",
        "result": [{**_metric(s), "values": [_sample(*sample) for sample in s.samples]} for s in series],
    }


def listing(*series: Series) -> list[dict[str, str]]:
    return [{NAME: s.name, **s.labels} for s in series]


def _metric(series: Series) -> dict[str, Any]:
    return {"metric": {**({NAME: series.name} if series.name else {}), **series.labels}}


def _sample(at: float, value: float) -> list[Any]:
    words = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
    return [at, words.get(str(value), repr(value).removesuffix(".0"))]


@contextmanager
def listening(
    answers: Answers, requests: Requests | None = None, seconds: float = 0.0, seconds_per_byte: float = 0.0
) -> Iterator[int]:
    """Yield the port of a server that gives ``answers`` after ``seconds``, and appends its ``requests``.

    Every other query is refused as a parse error; ("query", "vector(time())") is NOW.
    """
    every = {("query", "vector(time())"): vector(Series("", {}, [(NOW, NOW)])), **answers}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            parameters = {key: values[0] for key, values in parse_qs(address.query).items()}
            if address.path == "/-/ready":
                return self.answer(200, b"Prometheus Server is Ready.\n")
            time.sleep(seconds)
            path = address.path.removeprefix("/api/v1/")
            if requests is not None:
                requests.append({"path": path, **parameters})
            key = (path, parameters.get("query") or parameters.get("match[]", ""))
            if key not in every:
                answer = {"status": "error", "errorType": "bad_data", "error": f"parse error: {key[1]}"}
                return self.answer(400, json.dumps(answer).encode())
            return self.answer(200, json.dumps({"status": "success", "data": every[key]}).encode())

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            size = 1 if seconds_per_byte else len(content)
            with suppress(ConnectionError):
                for begin in range(0, len(content), size):
                    self.wfile.write(content[begin : begin + size])
                    time.sleep(seconds_per_byte)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def training(run: str = "resnet20-mnist-1", seconds: Sequence[float] = (10.0, 12.5)) -> list[Series]:
    """Return ranks' series after 100 steps of 32 images, rank r in ``seconds[r]``: 20 % input, 50 % compute."""
    return [each for rank, whole in enumerate(seconds) for each in _rank(run, rank, whole)]


def _rank(run: str, rank: int, whole: float) -> Iterator[Series]:
    node = f"demo-worker-{rank - 1}" if rank else "demo-head"
    labels = {"run": run, "model": "resnet20", "dataset": "mnist", "rank": str(rank), "node": node}
    values = {
        "images_total": 3232.0, "step_seconds_count": 100.0, "step_seconds_sum": whole, "first_step_seconds": 4.0,
        "batch_size": 32.0, "epoch": 2.0, "epochs": 4.0, "progress_ratio": 0.25, "start_time_seconds": NOW - 60.0,
        "learning_rate": 0.1, "world_size": 2.0, "reduced_bytes_total": 1000.0, "restarts_total": 0.0,
    }  # fmt: skip
    for name, value in values.items():
        yield sampled(name, value, labels)
    for part, share in {"input": 0.2, "compute": 0.5, "communication": 0.3}.items():
        yield sampled("step_part_seconds_count", 100.0, {**labels, "part": part})
        yield sampled("step_part_seconds_sum", whole * share, {**labels, "part": part})
    for split, loss in {"train": 0.5, "test": 0.75}.items():
        yield sampled("loss", loss, {**labels, "split": split})
        yield sampled("top1_ratio", 1.0 - loss, {**labels, "split": split})


def sampled(name: str, value: float, labels: Mapping[str, str]) -> Series:
    """Return a training series with two samples, five seconds apart, that rises to ``value``."""
    return Series(f"orchestrator_training_{name}", dict(labels), [(NOW - 5.0, value / 2), (NOW, value)])


def answers_for_run(series: Sequence[Series], run: str = "resnet20-mnist-1") -> Answers:
    """Return answers to the queries that fetch the series of a run, or look them up at a teardown."""
    selector = f'{{run="{run}"}}'
    mark = "orchestrator_training_progress_ratio"
    span = Series("", {}, next(each.samples for each in series if each.name == mark))
    by_name = {name: [each for each in series if each.name == name] for name in {each.name for each in series}}
    return {
        ("label/run/values", mark): [run],
        ("query_range", f"count({mark}{selector})"): matrix(span),
        ("series", selector): listing(*series),
        **{("query_range", name + selector): matrix(*members) for name, members in by_name.items()},
    }
