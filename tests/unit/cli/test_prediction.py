"""`orchestrator predict` through the command line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from orchestrator import state
from orchestrator.cli import app, prediction_options
from orchestrator.config import Config
from orchestrator.errors import OrchestratorError
from orchestrator.prediction.gradient_groups import Engine
from orchestrator.providers import trainer_image
from orchestrator.recipes import models
from orchestrator.runs import engines, predict_runs, run_record, store
from orchestrator.runs.launchers import horovod
from orchestrator.runs.run_record import Run
from orchestrator.schema import CheckMessage, Predicted, RunStatus, TrainConfig, World
from orchestrator.state import Record, StateDir
from tests import builders
from tests.stand_ins import openstack_cases, ssh_stand_in

GIVEN = ("predict", "resnet50", "--dataset", "imagenet", "--images-per-second", "360", "--batch-size", "128")
LINKED = (*GIVEN, "--link", "10gbit", "--latency", "50us")
ON_CPUS = ("predict", "resnet50", "--dataset", "imagenet", "--step-seconds", "1", "--nodes", "4")


def printed(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.exception or result.output
    return result.stdout


def refused(*words: str) -> OrchestratorError:
    result = CliRunner().invoke(app, list(words))
    assert isinstance(result.exception, OrchestratorError)
    return result.exception


def predicted(*words: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(printed(*words, "--json"))
    return read


def test_table_has_a_line_for_each_number_of_nodes() -> None:
    lines = printed(*LINKED, "--nodes", "8,2").splitlines()
    one_rank = "one rank: 0.3556 s for 128 images on a GPU, as given"
    assert lines[0] == f"resnet50 on imagenet; {one_rank}; link: 10 Gbit/s, tcp, as given"
    assert [line.split()[0] for line in lines[3:]] == ["2", "8"]


@pytest.mark.parametrize(("cores", "words"), [("8", "on 8 cores, as given"), ("1", "on 1 core, as given")])
def test_cores_that_compute_are_named(cores: str, words: str) -> None:
    assert words in printed(*LINKED, "--cores", cores).splitlines()[0]


def test_steps_of_more_images_than_the_data_set_has_are_named() -> None:
    words = ("predict", "lenet", "--dataset", "mnist", "--step-seconds", "0.1", "--link", "1gbit", "--batch-size", "64")
    lines = printed(*words, "--nodes", "937,938,2000").splitlines()
    beyond = "a step on 938, 2000 nodes takes more images than mnist has for training (60,000): `train` uses a smaller"
    assert lines[-1].startswith(beyond)
    twice = (*words, "--nodes", "468,469", "--backward-passes-per-step", "2")
    assert predicted(*twice)["batch_beyond_data"] == [469]
    assert "for training" not in printed(*words, "--nodes", "937")
    assert predicted("predict", "lenet", "--dataset", "synthetic", *words[4:])["batch_beyond_data"] == []


@pytest.mark.parametrize("model", models())
def test_every_model_can_be_predicted(model: str) -> None:
    data = "sdss" if model == "dense" else "synthetic"
    shape = ("--dataset", data, "--step-seconds", "0.2", "--link", "1gbit", "--cores", "2")
    assert len(predicted("predict", model, *shape)["forecasts"]) == 5


@pytest.mark.parametrize("engine", get_args(Engine))
def test_every_engine_can_be_predicted(engine: str) -> None:
    forecasts = predicted(*LINKED, "--engine", engine, "--slots", "4", "--hierarchical", "--within", "nvlink")
    assert forecasts["options"]["engine"] == engine
    assert forecasts["forecasts"][1]["ranks"] == 8


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_engine_of_train_is_predicted_or_refused_by_name(engine: str) -> None:
    words = (*LINKED, "--nodes", "2", "--engine", engine)
    if engine in ("single", "tensorflow-multiworker"):
        assert f"--engine: {engine!r} is unknown to `predict` (known: ours, " in refused(*words).message
    else:
        assert predicted(*words)["options"]["engine"] == prediction_options.ENGINES[engine]


def test_compression_passes_and_price_change_the_forecast() -> None:
    plain = predicted(*LINKED, "--nodes", "8")["forecasts"][0]
    half = predicted(*LINKED, "--nodes", "8", "--compression", "fp16")["forecasts"][0]
    slow = (*GIVEN, "--link", "1gbit", "--nodes", "8")
    once, passes = (predicted(*slow, "--backward-passes-per-step", n)["forecasts"][0] for n in ("1", "4"))
    priced = predicted(*LINKED, "--nodes", "8", "--node-price", "2")["forecasts"][0]
    assert half["exposed_seconds"][0] < plain["exposed_seconds"][0]
    assert passes["efficiency"][0] > once["efficiency"][0]
    assert priced["price"][0] == pytest.approx(16 * priced["hours"][0])
    assert plain["price"] is None


def test_compression_is_chosen_for_each_number_of_nodes() -> None:
    words = (
        *GIVEN[:-1],
        "32",
        "--link",
        "100gbit",
        "--latency",
        "5ms",
        "--precision",
        "bfloat16",
        "--nodes",
        "1,2,4,16",
    )
    auto, none, half = (
        predicted(*words, *more)["forecasts"] for more in ((), ("--compression", "none"), ("--compression", "bf16"))
    )
    kinds = [each.pop("compression") for each in auto]
    assert kinds == ["none", "bf16", "bf16", "none"]
    for each, kind, whole, halved in zip(auto, kinds, none, half, strict=True):
        assert each["step_seconds"] == (halved if kind == "bf16" else whole)["step_seconds"]
    assert "compression bf16 on 2, 4 nodes and none on 16 nodes" in printed(*words)


def test_adasum_sends_all_bits(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    words = (*LINKED, "--precision", "bfloat16", "--nodes", "4", "--config", str(file))
    for adasum, compression in ((False, "bf16"), (True, "none")):
        file.write_text(json.dumps({"train": {"adasum": adasum}}))
        assert predicted(*words)["forecasts"][0]["compression"] == compression


def test_best_number_of_nodes_is_named() -> None:
    assert printed(*LINKED, "--nodes", "1,2,4,8", "--deadline", "40h").splitlines()[-1].startswith("best: 4 nodes: ")
    assert predicted(*LINKED, "--nodes", "1,2,4,8", "--deadline", "1h")["best"] is None
    assert printed(*LINKED, "--nodes", "1,2", "--budget", "120", "--node-price", "1").splitlines()[-1].endswith(") EUR")
    late = printed(*LINKED, "--deadline", "24", "--budget", "120", "--node-price", "1").splitlines()[-1]
    demands = "ends within 0.4 min and costs at most 120.00 EUR"  # 24 are seconds
    assert late == f"none of these numbers of nodes {demands} at the upper end of its band"


def test_choice_without_a_price_or_an_end_is_refused(tmp_path: Path) -> None:
    assert "--budget: no price is known of the nodes" in refused(*LINKED, "--budget", "9").message
    without = refused(*on_google(tmp_path), "--machine-type", "n1-standard-4", "--budget", "9")
    assert without.message == "--budget: no price is known of n1-standard-4"
    synthetic = ("predict", "resnet50", "--dataset", "synthetic", "--step-seconds", "1", "--link", "1gbit")
    assert "data set synthetic has none" in refused(*synthetic, "--deadline", "1h").message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "two"), "--nodes: 'two': expected numbers from 1 to 100,000"),
        (("--nodes", ""), "--nodes: empty"),
        (("--nodes", "0"), "--nodes: '0'"),
        (("--nodes", "2,1000000"), "--nodes: '1000000': expected numbers from 1 to 100,000"),
        (("--nodes", "9" * 5000), "--nodes: '999"),
        (("--deadline", "soon"), "--deadline: 'soon' is no duration"),
        (("--deadline", "9" * 400), "--deadline: '999"),
        (("--epochs", "9" * 400), "train.epochs: 999"),
        (("--batch-size", "9" * 400), "train.batch_size: 999"),
        (("--engine", "mine"), "--engine: 'mine' is unknown"),
        (("--within", "wifi"), "--within: 'wifi' is unknown"),
        (("--link", "fast"), "--link: 'fast' is no rate"),
    ],
)
def test_options_that_cannot_be_read_are_named(words: tuple[str, ...], message: str) -> None:
    assert message in refused(*LINKED, *words).message


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        *(("--images-per-second", value, "between 1e-06 and 1000000000") for value in ("-1", "0", "nan", "inf")),
        *(("--step-seconds", value, "between 1e-06 and 1000000000") for value in ("-1", "0", "1e-320")),
        *(("--slots", value, "between 1 and 64") for value in ("-1", "0", "99999999999999999", "9" * 400)),
        *(("--cores", value, "between 1 and 10000") for value in ("-1", "0", "9" * 400)),
        *(("--node-price", value, "between 0 and 1000000000") for value in ("-1", "nan", "inf")),
        *(("--budget", value, "between 0 and 1000000000") for value in ("-1", "nan")),
        *(("--link", f"{value}gbit", "1kbit to 1000000gbit") for value in ("0", "9" * 40)),
        ("--latency", "61s", "at most 60s"),
    ],
)
def test_impossible_numbers_are_refused(option: str, value: str, expected: str) -> None:
    refusal = refused(*LINKED, option, value)
    assert refusal.exit_code == 2
    number = value if option not in ("--link", "--latency") else f"'{value}"
    assert refusal.message.startswith(f"{option}: {number[:20]}")
    assert len(refusal.message) < 200
    assert expected in refusal.message


def test_one_speed_of_a_rank_is_expected() -> None:
    assert "--step-seconds 1 and --images-per-second 360: both give" in refused(*LINKED, "--step-seconds", "1").message


def test_latency_of_zero_counts() -> None:
    default, none = (
        predicted(*GIVEN, "--link", "10gbit", "--nodes", "8", *words)["forecasts"][0]
        for words in ((), ("--latency", "0us"))
    )
    assert none["exposed_seconds"][0] < default["exposed_seconds"][0]


def test_missing_profile_and_link_name_the_measuring_command() -> None:
    profile = refused("predict", "resnet50", "--dataset", "imagenet", "--batch-size", "16")
    made = "--dataset synthetic --batch-size 16 --image-size 224 --np 1 --steps 60"
    assert profile.hint.startswith(f"`orchestrator train resnet50 {made}` makes one, and so does --profile;")
    link = refused(*GIVEN)
    assert "`orchestrator check` measures the link" in link.hint
    assert refused(*GIVEN, "--latency", "1ms").message == link.message
    checked(builders.deployed())
    assert "only with --link" in refused(*GIVEN, "--latency", "1ms").message


@pytest.mark.parametrize("more", [(), ("--slots", "2", "--cores", "4")])
def test_one_node_needs_no_link(more: tuple[str, ...]) -> None:
    alone, linked = (predicted(*words, "--nodes", "1", *more) for words in (GIVEN, LINKED))
    assert alone["forecasts"] == linked["forecasts"]
    assert alone["link"] == "not needed on one node"
    assert "--link: missing" in refused(*GIVEN, "--nodes", "1,2", *more).message


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--backtest", "resnet50"), "MODEL --backtest"),
        (("--review", "--nodes", "2", "--json"), "--nodes --review"),
        (("--review", "--backtest"), "--backtest --review"),
        (("--backtest", "--cluster", "other"), "--backtest --cluster"),
    ],
)
def test_comparisons_refuse_options_of_a_prediction(words: tuple[str, ...], named: str) -> None:
    assert refused("predict", *words).message.startswith(f"{named}: cannot be combined: ")


@pytest.mark.parametrize(
    ("words", "data", "made"),
    [
        (("inception_v3", "--dataset", "imagenet"), None, "--dataset synthetic --image-size 299"),
        (("resnet50", "--dataset", "imagenet"), "/data", "--dataset imagenet"),
        (("resnet50", "--dataset", "imagenet", "--batch-size", "513"), None, "--dataset imagenet --data DIR"),
        (("dense", "--dataset", "sdss"), None, "--dataset sdss --data DIR"),
        (("lenet", "--dataset", "mnist"), None, "--dataset mnist"),
    ],
)
def test_missing_profile_is_made_on_data_that_is_there(
    tmp_path: Path, words: tuple[str, ...], data: str | None, made: str
) -> None:
    (tmp_path / "cluster.yaml").write_text(json.dumps({"train": {"data": data}}))
    hint = refused("predict", *words, "--config", str(tmp_path / "cluster.yaml")).hint
    assert hint.startswith(f"`orchestrator train {words[0]} {made} ")
    assert ("--profile" in hint) == ("DIR" not in made)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory in place of the shared storage of a cluster."""
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path / "shared"))
    return tmp_path / "shared"


@contextmanager
def healthy_head(shared: Path, **node: Any) -> Iterator[StateDir]:
    """Deploy a node with two cores and the fields ``node``, on which each run finishes at once."""

    def answer(command: str) -> bytes | None:
        if "node_report" in command:
            digest = trainer_image.trainer_digest(builders.read_record(state_dir))
            return builders.node_report(digest=digest).model_dump_json().encode()
        if "systemd-run" in command:
            for run in (shared / "runs").iterdir():
                (run / "log").touch()
                RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0).write(run / "status.json")
        return b"" if "systemctl" in command or "systemd-run" in command else None

    with ssh_stand_in.listening(answer) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key, "default", cpus=2.0, **node)
        config = Config(nodes=1).model_dump(mode="json")
        state.write(state_dir, Record(id="1a2b3c4d", config=config, cluster=cluster))
        yield state_dir


def test_profile_option_trains_on_data_that_is_there(shared: Path) -> None:
    with healthy_head(shared, slots=2) as state_dir:
        refused("predict", "resnet50", "--dataset", "imagenet", "--profile")
    (run,) = store.list_runs(state_dir)
    settings = TrainConfig.model_validate_json((state_dir.runs / run.id / "config.json").read_text())
    assert (settings.dataset, settings.image_size, run.np) == ("synthetic", 224, 1)


def on_google(directory: Path, **changes: str) -> tuple[str, ...]:
    """Return the arguments of a prediction for a Google cluster that was never deployed."""
    gcp = {"zone": "us-central1-a", "machine_type": "n1-standard-8", "iap": True, **changes}
    values = {"provider": "gcp", "gcp": gcp, "prices": {"n1-standard-8": 0.38, "n1-standard-2": 0.1, "Cloud NAT": 0.0}}
    (directory / "cluster.yaml").write_text(json.dumps(values))
    return (*ON_CPUS, "--config", str(directory / "cluster.yaml"))


def test_link_without_a_check_is_the_limit_of_the_machine_type(tmp_path: Path) -> None:
    answer = predicted(*on_google(tmp_path))
    assert answer["link"] == "up to 16 Gbit/s, Google's limit for n1-standard-8; not measured, so the bands are wide"
    named = predicted(*on_google(tmp_path), "--link", "16gbit-cloud")["forecasts"][0]
    forecast = answer["forecasts"][0]
    assert forecast["step_seconds"][0] == named["step_seconds"][0]
    assert forecast["exposed_seconds"][1] < named["exposed_seconds"][1]
    assert forecast["exposed_seconds"][2] > named["exposed_seconds"][2]


def test_machine_types_are_compared_by_link_cores_and_price(tmp_path: Path) -> None:
    own, other = (predicted(*on_google(tmp_path), *words) for words in ((), ("--machine-type", "n1-standard-2")))
    assert "up to 10 Gbit/s, Google's limit for n1-standard-2" in other["link"]
    own, other = own["forecasts"][0], other["forecasts"][0]
    assert other["exposed_seconds"][0] > own["exposed_seconds"][0]
    assert own["price"][0] == pytest.approx(4 * 0.38 * own["hours"][0])
    assert other["price"][0] == pytest.approx(4 * 0.10 * other["hours"][0])


def test_machine_type_option_has_a_rank_for_each_gpu() -> None:
    (forecast,) = predicted(*ON_CPUS, "--machine-type", "a2-highgpu-4g")["forecasts"]
    assert forecast["ranks"] == 16
    assert predicted(*ON_CPUS, "--machine-type", "a2-highgpu-4g", "--slots", "2")["forecasts"][0]["ranks"] == 8
    slow = predicted(*ON_CPUS, "--machine-type", "a2-highgpu-4g", "--latency", "5ms")["forecasts"][0]
    assert slow["exposed_seconds"][0] > forecast["exposed_seconds"][0]


def deployed_with(slots: int, provider: str = "local", **node: Any) -> None:
    """Record a deployed cluster of two nodes whose configuration names no slots."""
    state_dir = builders.deployed(provider=provider)
    cluster = builders.cluster(2, slots, **node)
    state.write(state_dir, builders.read_record(state_dir).model_copy(update={"cluster": cluster}))


@pytest.mark.parametrize(("words", "ranks"), [((), 8), (("--slots", "2"), 4), (("--machine-type", "a2-highgpu-1g"), 2)])
def test_deployed_nodes_tell_the_ranks_of_a_node(words: tuple[str, ...], ranks: int) -> None:
    deployed_with(4, gpus=4)
    assert predicted(*LINKED, "--nodes", "2", *words)["forecasts"][0]["ranks"] == ranks


HEADLESS = "the head has no GPU and runs no rank"


def test_deployed_head_without_a_gpu_runs_no_rank() -> None:
    state_dir = builders.deployed(nodes=3)
    cluster = builders.cluster(3, slots=4, gpus=4)
    head = cluster.nodes[cluster.head].model_copy(update={"gpus": 0, "slots": 1})
    cluster = cluster.model_copy(update={"nodes": {**cluster.nodes, cluster.head: head}})
    state.write(state_dir, builders.read_record(state_dir).model_copy(update={"cluster": cluster}))
    answer = predicted(*LINKED, "--nodes", "1,2,3", "--node-price", "2")
    assert [(each["nodes"], each["ranks"]) for each in answer["forecasts"]] == [(2, 4), (3, 8)]
    assert answer["forecasts"][1]["price"][0] == pytest.approx(6 * answer["forecasts"][1]["hours"][0])
    assert answer["node"].endswith(HEADLESS)
    assert predicted(*LINKED, "--nodes", "3", "--cores", "8")["forecasts"][0]["ranks"] == 12
    assert refused(*LINKED, "--nodes", "1").message == f"--nodes: 1: {HEADLESS}: expected 2 or more"


def test_configured_head_without_a_gpu_runs_no_rank(tmp_path: Path) -> None:
    gpu: dict[str, Any] = {"accelerator": "nvidia-tesla-t4", "accelerators": 2}
    ranks = [
        predicted(*on_google(tmp_path, **keys))["forecasts"][0]["ranks"]
        for keys in ({"head_machine_type": "e2-standard-2", **gpu}, {"head_machine_type": "n1-standard-2", **gpu}, gpu)
    ]
    assert ranks == [6, 8, 8]


def test_deployed_nodes_tell_the_ranks_behind_a_check() -> None:
    deployed_with(4, gpus=4)
    checked(state.for_cluster("default"))
    assert predicted(*GIVEN, "--nodes", "2")["forecasts"][0]["ranks"] == 8


def test_ranks_of_deployed_nodes_share_the_vcpus_of_their_type(tmp_path: Path) -> None:
    words = on_google(tmp_path)
    shared, alone = predicted(*words, "--slots", "2"), predicted(*words)
    deployed_with(2, "gcp", cpus=8.0)
    deployed = predicted(*words)
    assert deployed["forecasts"] == shared["forecasts"] != alone["forecasts"]


def test_slower_head_limits_only_a_ring_of_cpus(tmp_path: Path) -> None:
    on_cpus = predicted(*on_google(tmp_path, head_machine_type="e2-standard-2"))
    on_gpus = predicted(*on_google(tmp_path, head_machine_type="e2-standard-2", accelerator="nvidia-tesla-t4"))
    assert "up to 4 Gbit/s, Google's limit for e2-standard-2" in on_cpus["link"]
    assert "up to 16 Gbit/s, Google's limit for n1-standard-8" in on_gpus["link"]


def checked(state_dir: StateDir, *hosts: str) -> Run:
    """Store a check of two ranks, on two nodes or on ``hosts``."""
    run = builders.run(kind="check", controller="gloo")
    store.save(state_dir, run)
    messages = [CheckMessage(bytes=size, latency_seconds=0.006 + size * 1e-8, bus_bandwidth=1e8) for size in (4, 2**26)]
    builders.check(messages, hosts or ("demo-head", "demo-worker-0")).write(state_dir.runs / run.id / "check.json")
    return run


def test_check_of_the_cluster_takes_precedence_over_its_type(tmp_path: Path) -> None:
    run = checked(builders.deployed(provider="gcp"))
    assert predicted(*on_google(tmp_path))["link"] == f"run {run.id}: check of 2 ranks on 2 nodes"
    assert (
        "Google's limit for n1-standard-2" in predicted(*on_google(tmp_path), "--machine-type", "n1-standard-2")["link"]
    )


def test_check_inside_one_node_leaves_the_limit_of_the_machine_type(tmp_path: Path) -> None:
    run = checked(builders.deployed(provider="gcp"), "demo-head", "demo-head")
    assert "Google's limit for n1-standard-8" in predicted(*on_google(tmp_path))["link"]
    of_one_node = predicted(*on_google(tmp_path), "--slots", "2", "--nodes", "1")
    assert of_one_node["link"] == f"run {run.id}: check of 2 ranks on 1 node"


def test_check_inside_one_node_is_no_link_of_several() -> None:
    checked(builders.deployed(), "demo-head", "demo-head")
    refusal = refused(*GIVEN)
    assert refusal.message == "--link: missing, and no check of cluster 'default' between nodes was fetched"
    assert "measures the link between two nodes or more" in refusal.hint


def test_within_changes_a_node_of_gpus_after_a_check() -> None:
    checked(builders.deployed())
    words = (*GIVEN, "--slots", "4", "--nodes", "1", "--within")
    pcie, nvlink = (predicted(*words, kind)["forecasts"][0]["efficiency"][0] for kind in ("pcie", "nvlink"))
    assert 0.9 < pcie < nvlink


def profiled(state_dir: StateDir, **changes: Any) -> str:
    """Store a profile and return the name of its run."""
    run = builders.run()
    store.save(state_dir, run)
    builders.profile(run=run.id, **changes).write(state_dir.runs / run.id / "profile.json")
    return run.id


ON_MNIST = ("predict", "resnet20", "--dataset", "mnist", "--link", "1gbit")
SYNTHETIC = ("predict", "resnet20", "--dataset", "synthetic", "--link", "1gbit")


@pytest.mark.parametrize(("words", "threads"), [(("--slots", "2"), 1), (("--cores", "8"), 8)])
def test_profile_with_other_threads_is_refused(words: tuple[str, ...], threads: int) -> None:
    run = profiled(builders.deployed())
    assert run in predicted(*ON_MNIST)["node"]
    refusal = refused(*ON_MNIST, *words)
    assert f"run {run} had 2 threads, expected {threads}, as many as a rank has cores" in refusal.message
    assert "if the nodes are deployed with as many cores for a rank; or give --images-per-second" in refusal.hint


@pytest.mark.parametrize(
    ("words", "configured", "threads", "remedy"),
    [
        (("--slots", "2"), {}, 1, "`orchestrator deploy --slots 2` changes that"),
        ((), {"slots": 2}, 1, "`orchestrator deploy --slots 2` changes that"),
        (("--cores", "8"), {}, 8, "deploy nodes with as many cores for a rank"),
    ],
)
def test_profile_with_other_threads_is_refused_before_training(
    shared: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    configured: dict[str, int],
    threads: int,
    remedy: str,
) -> None:
    (tmp_path / "cluster.yaml").write_text(json.dumps(configured))
    with healthy_head(shared) as state_dir:
        refusal = refused(*SYNTHETIC, "--profile", *words, "--config", str(tmp_path / "cluster.yaml"))
    problem = f"--profile: a rank on cluster 'default' has 2 threads, expected {threads}, as many as it has cores"
    assert (refusal.message, store.list_runs(state_dir)) == (f"{problem} in the prediction", [])
    assert refusal.hint == f"{remedy}, or give --images-per-second or --step-seconds of one rank"


@pytest.mark.parametrize(
    ("gpus", "words"),
    [(0, ()), (1, ("--slots", "2")), (0, ("--cores", "8", "--step-seconds", "1")), (0, ("--cores", "2"))],
)
def test_profile_that_serves_the_prediction_is_made(shared: Path, gpus: int, words: tuple[str, ...]) -> None:
    with healthy_head(shared, gpus=gpus) as state_dir:
        result = CliRunner().invoke(app, [*SYNTHETIC, "--profile", *words])
    assert len(store.list_runs(state_dir)) == 1, result.exception


def test_profile_of_a_gpu_serves_any_number_of_slots() -> None:
    run = profiled(builders.deployed(), on_gpu=True)
    assert run in predicted(*ON_MNIST, "--slots", "2")["node"]


def test_profile_of_other_machines_is_reported() -> None:
    profiled(builders.deployed())
    words = ("predict", "resnet20", "--dataset", "mnist", "--machine-type", "n1-standard-2")
    assert predicted(*words, "--slots", "2")["node"].endswith(", not measured on n1-standard-2")
    assert predicted(*words)["node"].endswith(", not measured on n1-standard-2")


def test_unknown_machine_types_are_refused(tmp_path: Path) -> None:
    configured = refused(*on_google(tmp_path, machine_type="c4-standard-8"))
    assert "gcp.machine_type: 'c4-standard-8' is not in the table" in configured.message
    assert "--link 10gbit --latency 50us" in configured.hint
    assert "--machine-type: 'n1-standrad-8'" in refused(*GIVEN, "--machine-type", "n1-standrad-8").message


def on_openstack(directory: Path, **keys: Any) -> tuple[str, ...]:
    """Return the arguments of a prediction for a cluster on the cloud "here" that was never deployed."""
    settings = openstack_cases.config(**keys).model_dump(mode="json", exclude_unset=True)
    (directory / "cluster.yaml").write_text(json.dumps(settings))
    return (*ON_CPUS, "--config", str(directory / "cluster.yaml"))


def test_link_without_a_check_is_the_limit_of_the_flavor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as cloud:
        cloud.set_extra_specs("m1.tiny", {"quota:vif_outbound_average": "1250000"})
        cloud.set_extra_specs("m1.small", {"quota:vif_inbound_average": "125000"})
        prediction = predicted(*on_openstack(tmp_path))
        slow = predicted(*on_openstack(tmp_path), "--latency", "5ms")
        of_cpus = predicted(*on_openstack(tmp_path, head_flavor="m1.small"), "--cores", "8")
        of_gpus = predicted(*on_openstack(tmp_path, head_flavor="m1.small"))
    assert slow["forecasts"][0]["step_seconds"][0] > prediction["forecasts"][0]["step_seconds"][0]
    assert (
        prediction["link"]
        == "up to 10 Gbit/s, the cloud's limit for flavor m1.tiny; not measured, so the bands are wide"
    )
    assert "up to 1 Gbit/s, the cloud's limit for flavor m1.small" in of_cpus["link"]
    assert of_gpus["link"] == prediction["link"]
    named = predicted(*on_openstack(tmp_path), "--link", "10gbit-cloud")["forecasts"][0]
    assert prediction["forecasts"][0]["exposed_seconds"][0] == named["exposed_seconds"][0]
    assert prediction["forecasts"][0]["exposed_seconds"][2] > named["exposed_seconds"][2]


def test_flavor_without_a_limit_needs_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path):
        missing, reason = refused(*on_openstack(tmp_path)).message.splitlines()
    assert missing.startswith("--link: missing, and no check of cluster 'sdk'")
    assert reason == "openstack.flavor: m1.tiny has no bandwidth limit, or none that this account can see"


def test_unreachable_cloud_is_the_reason_for_a_missing_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path):
        words = on_openstack(tmp_path)
    missing, reason = refused(*words).message.splitlines()
    assert missing.startswith("--link: missing")
    assert reason.startswith("openstack.flavor: its limit is not known: OpenStack does not answer: http://127.0.0.1:")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/nowhere/clouds.yaml")
    assert "its limit is not known: openstack.cloud: there is no clouds.yaml" in refused(*words).message


def test_known_link_needs_no_request_to_the_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as cloud:
        predicted(*on_openstack(tmp_path), "--link", "10gbit")
        checked(builders.deployed(name="sdk", provider="openstack"))
        assert "check of 2 ranks" in predicted(*on_openstack(tmp_path))["link"]
        assert cloud.requests == []


def test_backtest_shows_published_and_predicted_values_and_reasons() -> None:
    lines = printed("predict", "--backtest").splitlines()
    assert any("within 10 points" in line for line in lines)
    misses = [line for line in lines if line.rstrip().endswith("miss")]
    assert all(any(line.startswith(f"{miss.split('  ')[0]}: ") for line in lines) for miss in misses)
    backtest = json.loads(printed("predict", "--backtest", "--json"))
    assert backtest["near"] <= backtest["counted"] <= len(backtest["rows"])


def test_large_numbers_are_plain_and_short_times_are_minutes() -> None:
    fast = ("predict", "resnet50", "--dataset", "mnist", "--images-per-second", "90000", "--link", "100gbit-ib")
    row = printed(*fast, "--nodes", "1").splitlines()[3]
    assert "90000 (" in row
    assert " min (" in row


def test_review_without_runs_explains_how_to_make_a_prediction() -> None:
    assert printed("predict", "--review").startswith("no run has both a prediction and results yet: `train` on several")
    assert json.loads(printed("predict", "--review", "--json"))["runs"] == []


def test_review_shows_predicted_and_measured_images_per_second() -> None:
    run, state_dir = builders.run(), builders.deployed()
    store.save(state_dir, run)
    content = {"efficiency": 0.9, "ranks": 2, "made": 1.0, "profile": "run-1", "link": "run-2"}
    predicted_file = Predicted(images_per_second=60.0, low=40.0, high=80.0, **content)
    predicted_file.write(state_dir.runs / run.id / "prediction.json")
    results = builders.results([builders.epoch(1, images_per_second=50.0)], World(size=2, hosts=["a", "b"]))
    results.write(state_dir.runs / run.id / "results.json")
    headings, row, summary = printed("predict", "--review").splitlines()
    assert "predicted images/s" in headings
    assert row.split()[2:] == ["2", "60", "40", "-", "80", "50", "+20.0%", "yes"]
    (review,) = predict_runs.review()
    assert str(review) == "predicted 60 images/s (40 - 80), measured 50: error +20.0%"
    assert summary.startswith("median error 20.0%, 1 of 1 measurements inside the 90 % band")


def test_fewer_test_samples_take_less_time(tmp_path: Path) -> None:
    words, file = (*ON_CPUS, "--link", "1gbit", "--cores", "2"), tmp_path / "cluster.yaml"
    hours = []
    for text in ("nodes: 2\n", "train: {test_samples: 64}\n", "train: {test_samples: 10000000}\n"):
        file.write_text(text)
        hours.append(predicted(*words, "--config", str(file))["forecasts"][0]["hours"][0])
    assert hours[1] < hours[0] == hours[2]


def test_steps_of_the_configuration_end_the_training(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("train: {steps: 1000, test_samples: 1}\n")
    (limited,) = predicted(*ON_CPUS, "--link", "1gbit", "--cores", "2", "--config", str(file))["forecasts"]
    assert limited["hours"][0] == pytest.approx(1000 * limited["step_seconds"][0] / 3600, rel=1e-3)
    file.write_text("train: {steps: 1000000000}\n")  # more than the epochs have
    (whole,) = predicted(*ON_CPUS, "--link", "1gbit", "--cores", "2", "--config", str(file))["forecasts"]
    assert whole["hours"] == predicted(*ON_CPUS, "--link", "1gbit", "--cores", "2")["forecasts"][0]["hours"]


@pytest.mark.parametrize(
    ("engine", "model", "default"), [("ours", "resnet50", 32), ("horovod-torch", "resnet101", 128)]
)
def test_fusion_threshold_of_cluster_yaml_bounds_messages(
    tmp_path: Path, engine: str, model: str, default: int
) -> None:
    """Horovod 0.28.1 fuses up to 128 MiB; its versions that the back-test is about fused 64."""
    path = tmp_path / "settings.yaml"
    words = ("predict", model, *GIVEN[2:], "--link", "10gbit", "--latency", "1s", "--nodes", "4", "--engine", engine,
             "--config", str(path))  # fmt: skip

    def exposed(launch: dict[str, int]) -> float:
        path.write_text(json.dumps({"launch": launch}))
        return float(predicted(*words)["forecasts"][0]["exposed_seconds"][0])

    assert exposed({"fusion_threshold": 0}) > exposed({}) > exposed({"fusion_threshold": 1024})
    assert exposed({"fusion_threshold": default}) == exposed({})


@pytest.mark.parametrize(("launch", "seconds"), [({}, 0.5), ({"cycle_time": 100}, 0.1)])
def test_cycle_time_of_a_recipe_is_that_of_horovods_engines(
    tmp_path: Path, launch: dict[str, int], seconds: float
) -> None:
    """Unless cluster.yaml sets it; our trainer waits for no cycle."""
    recipe, path = tmp_path / "recipe.yaml", tmp_path / "cluster.yaml"
    recipe.write_text("common: {cycle_time: 500}\n")
    path.write_text(json.dumps({"train": {"recipe": str(recipe)}, "launch": launch}))
    words = (*LINKED, "--nodes", "4", "--config", str(path))
    assert predicted(*words, "--engine", "horovod-torch")["options"]["cycle"] == seconds
    with_recipe, without = (predicted(*each)["forecasts"] for each in (words, (*LINKED, "--nodes", "4")))
    assert with_recipe == without


def test_horovods_engines_have_the_cycle_of_their_launcher() -> None:
    """And not the one that the launcher sets for our trainer, which waits for none."""
    assert predicted(*LINKED, "--engine", "horovod-torch")["options"]["cycle"] == horovod.CYCLE_TIME / 1e3


@pytest.mark.parametrize(
    ("engine", "compression"), [("ours", "bf16"), ("horovod-torch", "none"), ("torch-ddp", "none")]
)
def test_only_our_trainer_chooses_16_bits_for_gradients(engine: str, compression: str) -> None:
    words = (*ON_CPUS, "--cores", "2", "--link", "100mbit", "--precision", "bfloat16", "--engine", engine)
    assert predicted(*words)["forecasts"][0]["compression"] == compression
