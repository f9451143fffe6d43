"""Predictions from the fetched files of a cluster's runs, and their comparison with results."""

from typing import Any

import pytest

from orchestrator.cluster import Cluster
from orchestrator.prediction import link_kinds
from orchestrator.prediction.allreduce_time import Link, Topology
from orchestrator.runs import predict_runs, prediction_inputs, provenance, store
from orchestrator.runs.prediction_inputs import History, LinkQuery, ProfileQuery
from orchestrator.schema import CheckMessage, Predicted, Ready, World
from orchestrator.schema.file_model import File
from orchestrator.state import StateDir
from tests import builders, samples

MESSAGES = [
    CheckMessage(bytes=size, latency_seconds=0.006 + size * 1e-8, bus_bandwidth=1e8) for size in (4, 2**20, 2**26)
]
CHECK = builders.check(MESSAGES)
INSIDE = builders.check(MESSAGES, hosts=["head", "head"])
LINK = LinkQuery(nodes=2, slots=1)


def fetched(state_dir: StateDir, started: float, name: str, content: File, **run: Any) -> None:
    """Record a run with the file ``name``."""
    recorded = builders.run(id=f"run-{started:g}", started=started, **run)
    store.save(state_dir, recorded)
    content.write(state_dir.runs / recorded.id / name)


@pytest.fixture
def state_dir() -> StateDir:
    """Return the state directory of a cluster with two profiles and a check."""
    directory = builders.deployed()
    fetched(directory, 1, "profile.json", builders.profile(run="run-1"))
    fetched(directory, 2, "profile.json", builders.profile(run="run-2", batch=64))
    fetched(directory, 3, "check.json", CHECK, kind="check", controller="gloo")
    return directory


@pytest.mark.parametrize(
    ("query", "run"),
    [
        (ProfileQuery("resnet20", 28), "run-2"),
        (ProfileQuery("resnet20", None, 32), "run-1"),
        (ProfileQuery("resnet20", 28, 32, "auto"), "run-1"),
        (ProfileQuery("resnet20", 28, 32, "bfloat16"), None),
        (ProfileQuery("resnet20", 28, threads=2), "run-2"),
        (ProfileQuery("resnet20", 28, threads=4), None),
        (ProfileQuery("resnet20", 32), None),
        (ProfileQuery("lenet", 28), None),
    ],
)
def test_newest_matching_profile_is_used(state_dir: StateDir, query: ProfileQuery, run: str | None) -> None:
    profile = prediction_inputs.profile(History(state_dir), query)
    assert (profile and profile.run) == run


@pytest.mark.parametrize(
    ("cpus", "found"), [({"a": "EPYC"}, True), ({"a": "Xeon"}, False), ({"a": "Xeon", "b": "EPYC"}, True), ({}, True)]
)
def test_runs_on_other_processors_are_left_out(state_dir: StateDir, cpus: dict[str, str], found: bool) -> None:
    node = provenance.NodeRecord(role="head", cpus=1, gpus=0, slots=1, hardware=builders.hardware(cpu_model="EPYC"))
    recorded = provenance.Provenance(nodes={"head": node})
    for run in ("run-1", "run-2"):
        recorded.write(state_dir.runs / run / provenance.FILE)
    nodes = [builders.hardware(cpu_model=model) for model in cpus.values()]
    history = History(state_dir, prediction_inputs.processors(nodes))
    assert (prediction_inputs.profile(history, ProfileQuery("resnet20", 28)) is not None) == found


def test_newest_check_of_the_controller_is_used(state_dir: StateDir) -> None:
    other = builders.check(MESSAGES, hosts=["a", "a", "b", "b"])
    fetched(state_dir, 4, "check.json", other, kind="check", controller="mpi")
    over_gloo, over_any = (
        prediction_inputs.connection(History(state_dir), LINK),
        prediction_inputs.connection(History(state_dir), LINK._replace(controller="auto")),
    )
    assert over_gloo is not None
    assert over_any is not None
    assert (over_gloo[1], over_any[1]) == (
        "run run-3: check of 2 ranks on 2 nodes",
        "run run-4: check of 4 ranks on 2 nodes",
    )


def test_runs_are_listed_once(state_dir: StateDir) -> None:
    history = History(state_dir)
    assert prediction_inputs.profile(history, ProfileQuery("resnet20", 28)) is not None
    for record in state_dir.runs.glob("*/run.json"):
        record.unlink()
    assert prediction_inputs.connection(history, LINK) is not None
    assert prediction_inputs.connection(History(state_dir), LINK) is None


@pytest.mark.parametrize(("nodes", "slots"), [(2, 1), (2, 4), (3, 2)])
def test_check_predicts_its_own_messages(state_dir: StateDir, nodes: int, slots: int) -> None:
    measured = Topology(nodes, slots, Link(3e-4, 1e-9, 1e-9), link_kinds.LOOPBACK)
    sizes = (4, 2**10, 2**26)
    messages = [CheckMessage(bytes=size, latency_seconds=measured.seconds(size), bus_bandwidth=1e8) for size in sizes]
    hosts = [host for host in "abc"[:nodes] for _ in range(slots)]
    fetched(state_dir, 4, "check.json", builders.check(messages, hosts), kind="check", controller="gloo")
    found = prediction_inputs.connection(History(state_dir), LinkQuery(nodes=nodes, slots=slots))
    assert found is not None
    for message in messages:
        assert found[0].at(nodes).seconds(message.bytes) == pytest.approx(message.latency_seconds, rel=0.01)


def test_check_of_nodes_with_different_numbers_of_ranks_measures_the_latency(state_dir: StateDir) -> None:
    messages = [
        CheckMessage(bytes=size, latency_seconds=2 * 2 * 0.006 + size * 1e-8, bus_bandwidth=1e8)
        for size in (4, 2**20, 2**26)
    ]
    fetched(state_dir, 4, "check.json", builders.check(messages, ["a", "a", "b"]), kind="check", controller="gloo")
    found = prediction_inputs.connection(History(state_dir), LINK)
    assert found is not None
    assert found[0].link.alpha == pytest.approx(0.006, rel=0.01)  # 3 ranks have 4 steps


def test_check_inside_one_node_is_no_link_between_nodes(state_dir: StateDir) -> None:
    fetched(state_dir, 4, "check.json", INSIDE, kind="check")
    between = prediction_inputs.connection(History(state_dir), LINK)
    inside = prediction_inputs.connection(History(state_dir), LinkQuery(nodes=1, slots=2))
    assert between is not None
    assert inside is not None
    assert between[1] == "run run-3: check of 2 ranks on 2 nodes"
    assert inside[1] == "run run-4: check of 2 ranks on 1 node"
    assert between[0].at(1).local.beta == link_kinds.LOOPBACK.beta
    assert inside[0].at(1).outer.beta == pytest.approx(1e-8, rel=0.01)


def test_gpus_of_a_node_keep_their_link_after_a_check(state_dir: StateDir) -> None:
    nvlink = link_kinds.within_node("nvlink")
    connected = prediction_inputs.connection(History(state_dir), LINK._replace(slots=4, local=nvlink))
    assert connected is not None
    assert (connected[0].local, connected[0].link.share) == (nvlink, link_kinds.GPU_SHARE)


def predicted(state_dir: StateDir, cluster: Cluster | None = None, **changes: Any) -> None:
    run = builders.run(id="run-9", started=9.0, **changes)
    store.save(state_dir, run)
    config = samples.train_config(model="resnet20", image_size=28, batch_size=32, precision="float32")
    predict_runs.save(state_dir, cluster or builders.cluster(), run, config)


def test_prediction_is_stored_and_compared_with_the_results(state_dir: StateDir) -> None:
    predicted(state_dir)
    assert predict_runs.review() == []
    epoch = builders.epoch(1, images_per_second=50.0)
    builders.results([epoch], World(size=2, hosts=["a", "b"])).write(state_dir.runs / "run-9" / "results.json")
    (reviewed,) = predict_runs.review()
    assert (reviewed.cluster, reviewed.ranks, reviewed.measured) == ("default", 2, 50.0)
    assert reviewed.low < reviewed.predicted < reviewed.high
    assert reviewed.predicted < 2 * 32
    assert str(reviewed).startswith(f"predicted {reviewed.predicted:.4g} images/s (")


def test_profile_of_a_gpu_fits_any_number_of_threads() -> None:
    assert ProfileQuery("resnet20", 28, threads=4).fits(builders.profile(on_gpu=True))


def test_prediction_on_gpus_has_their_link_within_a_node(state_dir: StateDir) -> None:
    late = builders.profile(run="run-4", on_gpu=True, steps=[0.1, 0.1], gradients=[Ready(200_000_000, 0.0)])
    fetched(state_dir, 4, "profile.json", late)
    predicted(state_dir, builders.cluster(1, slots=2, gpus=2))
    prediction = Predicted.model_validate_json((state_dir.runs / "run-9" / "prediction.json").read_text())
    assert 0.75 < prediction.efficiency < 0.9  # 20 ms over PCI Express; 100 ms over the loopback interface


@pytest.mark.parametrize("changes", [{"np": 1}, {"controller": "mpi"}, {"threads": 1}])
def test_prediction_needs_a_profile_and_a_check(state_dir: StateDir, changes: dict[str, Any]) -> None:
    predicted(state_dir, **changes)
    assert not (state_dir.runs / "run-9" / "prediction.json").exists()


def test_results_of_other_ranks_are_not_compared(state_dir: StateDir) -> None:
    predicted(state_dir)
    results = builders.results([builders.epoch(1)], World(size=3, hosts=["a", "b", "c"]))
    results.write(state_dir.runs / "run-9" / "results.json")
    assert predict_runs.review() == []


@pytest.mark.parametrize("name", ["profile.json", "check.json", "results.json", "prediction.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"steps": 1}', b"\xff\xfe"])
def test_damaged_files_are_ignored(state_dir: StateDir, name: str, content: bytes) -> None:
    predicted(state_dir)
    run = builders.run(id="run-8", started=8.0, kind="check")
    store.save(state_dir, run)
    for directory in ("run-8", "run-9"):
        (state_dir.runs / directory / name).write_bytes(content)
    assert prediction_inputs.profile(History(state_dir), ProfileQuery("resnet20", 28)) is not None
    assert prediction_inputs.connection(History(state_dir), LINK) is not None
    assert predict_runs.review() == []


def test_times_that_are_impossible_are_ignored(state_dir: StateDir) -> None:
    fetched(state_dir, 8, "profile.json", builders.profile(run="run-8", steps=[0.0, 0.0]))
    stopped = [message.model_copy(update={"latency_seconds": 0.0}) for message in MESSAGES]
    fetched(state_dir, 9, "check.json", builders.check(stopped), kind="check", controller="gloo")
    profile = prediction_inputs.profile(History(state_dir), ProfileQuery("resnet20", 28))
    found = prediction_inputs.connection(History(state_dir), LINK)
    assert profile is not None
    assert found is not None
    assert (profile.run, found[1]) == ("run-2", "run run-3: check of 2 ranks on 2 nodes")


def prediction(state_dir: StateDir) -> Predicted:
    return Predicted.model_validate_json((state_dir.runs / "run-9" / "prediction.json").read_text())


@pytest.mark.parametrize(("np", "slots", "saved"), [(3, 2, False), (4, 2, True), (2, 4, True), (5, 4, False)])
def test_prediction_is_of_the_ranks_that_run(state_dir: StateDir, np: int, slots: int, saved: bool) -> None:
    predicted(state_dir, builders.cluster(2, slots, cpus=2.0 * slots), np=np)
    assert (state_dir.runs / "run-9" / "prediction.json").exists() == saved
    if saved:
        made = prediction(state_dir)
        assert made.ranks == np
        assert made.images_per_second == pytest.approx(np * 32 * made.efficiency)  # 32 images in 1 s are one rank's


def test_prediction_has_the_fewer_ranks_of_a_smaller_head(state_dir: StateDir) -> None:
    nodes = builders.cluster(2, slots=4, cpus=8.0).nodes
    nodes = {name: node.model_copy(update={"slots": 1 if node.role == "head" else 4}) for name, node in nodes.items()}
    cluster = builders.cluster().model_copy(update={"nodes": nodes})
    predicted(state_dir, cluster, np=2)
    assert prediction(state_dir).ranks == 2
    assert prediction(state_dir).link == "run run-3: check of 2 ranks on 2 nodes"


def test_prediction_has_the_fusion_threshold_of_the_run(state_dir: StateDir) -> None:
    gradients = [Ready(8 << 20, 0.1 * share) for share in range(1, 11)]
    fetched(state_dir, 4, "profile.json", builders.profile(run="run-4", gradients=gradients))
    rates = []
    for threshold in (None, 32, 8, 0):
        predicted(state_dir, fusion_threshold=threshold)
        rates.append(prediction(state_dir).images_per_second)
    assert rates[0] == rates[1] != rates[2] == rates[3]
