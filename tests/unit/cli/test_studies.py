"""Commands of studies that start no run: their output, files and refusals."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.cli import launch_options, study_options, study_run
from orchestrator.config import Config
from orchestrator.errors import ConfigError, PreflightError, RunFailed, StateError
from orchestrator.runs import store
from orchestrator.schema import RunStatus
from orchestrator.schema.studies import Launch
from orchestrator.state import Record
from orchestrator.studies import (
    journal,
    machine_description,
    progress_messages,
    resumable_study,
    resume_checks,
    status,
    study_checks,
    study_files,
    study_runner,
)
from orchestrator.studies.cell_launch import Launcher
from orchestrator.studies.journal import Queued
from orchestrator.studies.launch_schedule import Schedule
from tests import builders
from tests.stand_ins import ssh_stand_in
from tests.unit.conftest import Cli, Connect
from tests.unit.studies.studies import cells, finish, launch, started, study

FILE = "name: tiny\nmodels: lenet\ndatasets: mnist\nranks: [1, 2]\nuntil: {time: 60s}\n"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("words", [("study",), ("study", "run")])
def test_dry_run_shows_cells_order_and_time(cli: Cli, tiny: Path, words: tuple[str, ...]) -> None:
    finished = cli(*words, tiny.name, "--dry-run", "--json")
    planned = json.loads(finished.stdout)
    assert [row["cell"] for row in planned["cells"]] == [
        "ours: lenet on mnist, 1 rank",
        "ours: lenet on mnist, 2 ranks",
        "ours: lenet on mnist, 1 rank (again)",
    ]
    first_round, second_round = (
        [step["cell"] for step in planned["order"] if step["round"] == number] for number in (1, 2)
    )
    assert second_round == first_round[::-1]
    assert {step["deploy"] for step in planned["order"]} == {None}
    assert (planned["launches"], planned["seconds"]) == (18, 18 * 60)
    assert list(tiny.parent.glob("tiny-study")) == []


def test_dry_run_names_deploys_that_change_the_nodes(cli: Cli, tiny: Path) -> None:
    tiny.write_text(FILE.replace("ranks", "nodes") + "repetitions: 2\n")
    (tiny.parent / "cluster.yaml").write_text("nodes: 2\n")
    lines = cli("study", tiny.name, "--dry-run").stdout.splitlines()
    one_node, two_nodes = "ours: lenet on mnist, 1 node", "ours: lenet on mnist, 2 nodes"
    first = [two_nodes, "deploy 1 node", one_node, f"{one_node} (again)"]
    second = [f"{one_node} (again)", one_node, "deploy 2 nodes", two_nodes]
    start = lines.index("order:") + 1
    assert lines[start:] == [
        *(f"  round 1: {line}" for line in first),
        *(f"  round 2: {line}" for line in second),
        "6 launches; 2 deploys change the number of nodes",
        "time: about 0:06:00, without deploys",
    ]
    fixed = json.loads(cli("study", tiny.name, "--dry-run", "--no-deploy", "--json").stdout)
    assert fixed["deploys"] == 0


@pytest.mark.parametrize(("rounds", "launches", "most"), [(0, 18, 33), (6, 0, 0)])
def test_dry_run_shows_the_most_launches_that_can_follow(
    cli: Cli, tiny: Path, rounds: int, launches: int, most: int
) -> None:
    of = study(repetitions={"width": 0.5, "at_least": 6, "at_most": 11}, until={"time": 60.0})
    resumable_study.create(tiny.parent / "tiny-study", of)
    order = Schedule(of, cells(of), []).certain()[: 3 * rounds]
    builders.deployed()
    with journal.opened(tiny.parent / "tiny-study") as current:
        for planned in order:
            current.end(launch(planned))
    planned = json.loads(cli("study", "tiny", "--resume", "--dry-run", "--json").stdout)
    assert (planned["launches"], planned["most"]) == (launches, most)


@pytest.mark.parametrize("words", [("--dry-run",), ("--resume",)])
def test_file_in_place_of_the_directory_of_a_study_is_refused(cli: Cli, tiny: Path, words: tuple[str, ...]) -> None:
    refused = cli("study", tiny.name, *words, "--directory", tiny.name)
    assert (refused.returncode, "dir 'tiny.yaml' is a file" in refused.stderr) == (2, True)


def test_number_of_rounds_beyond_the_limit_is_refused(cli: Cli, tiny: Path) -> None:
    refused = cli("study", tiny.name, "--dry-run", "--rounds", "1001")
    assert refused.returncode == 2
    assert "less than or equal to 1000" in refused.stderr


def test_dry_run_shows_the_cost_of_priced_resources(cli: Cli, tiny: Path) -> None:
    (tiny.parent / "cluster.yaml").write_text(
        "provider: openstack\nnodes: 2\nopenstack: {image: ubuntu, flavor: large}\nprices: {large: 30}\n"
    )
    planned = json.loads(cli("study", tiny.name, "--dry-run", "--json").stdout)
    assert planned["cost"] == pytest.approx(2 * 30 * 18 / 60)


def test_dry_run_shows_the_mean_cost_of_the_clusters_of_its_launches(cli: Cli, tiny: Path) -> None:
    tiny.write_text(FILE.replace("ranks", "nodes"))
    (tiny.parent / "cluster.yaml").write_text(
        "provider: openstack\nnodes: 2\nopenstack: {image: ubuntu, flavor: large}\nprices: {large: 30}\n"
    )
    planned = json.loads(cli("study", tiny.name, "--dry-run", "--json").stdout)
    assert planned["cost"] == pytest.approx((1 + 1 + 2) * 30 * 6 / 60)
    fixed = json.loads(cli("study", tiny.name, "--dry-run", "--no-deploy", "--json").stdout)
    assert fixed["cost"] == pytest.approx(2 * 30 * 18 / 60)


@pytest.mark.parametrize(
    ("until", "repetitions", "time"),
    [
        ("{time: 60s}", "6", "time: about 0:18:00"),
        ("{time: 60s, steps: 5}", "6", "time: about 0:18:00, if launches take their whole time limit"),
        ("{time: 60s}", "{width: 0.1, at_most: 7}", "time: about 0:18:00 for 18 launches"),
    ],
)
def test_dry_run_says_what_its_time_assumes(cli: Cli, tiny: Path, until: str, repetitions: str, time: str) -> None:
    tiny.write_text(FILE.replace("{time: 60s}", until) + f"repetitions: {repetitions}\n")
    assert cli("study", tiny.name, "--dry-run").stdout.splitlines()[-1] == time


def test_base_whose_cells_are_all_excluded_is_refused(cli: Cli, tiny: Path) -> None:
    tiny.write_text(FILE + "batch: [8, 16]\nbase: {ranks: 1, batch: 8}\nexclude: [{ranks: 1, batch: 8}]\n")
    refused = cli("study", tiny.name, "--dry-run")
    assert refused.returncode == 2
    assert "base: {'batch': 8, 'ranks': 1}: no cell has these values: `exclude` leaves them all out" in refused.stderr


@pytest.mark.parametrize(
    ("lists", "remedy"),
    [
        ("options: {precision: [float32, bfloat16]}", "as in `base: {precision: float32}`"),
        ("batch: [8, 16]", "as in `base: {batch: 8}`"),
        ("models: [lenet, resnet20]", "as in `base: {model: lenet}`"),
    ],
)
def test_width_without_a_ratio_is_refused(cli: Cli, tiny: Path, lists: str, remedy: str) -> None:
    one_size = FILE.replace("[1, 2]", "1").replace("models: lenet\n", "" if "models" in lists else "models: lenet\n")
    width = f"{one_size}{lists}\nrepetitions: {{width: 0.05}}\n"
    tiny.write_text(width)
    refused = cli("study", tiny.name, "--dry-run")
    assert refused.returncode == 2
    assert "repetitions.width: 0.05: no ratio has an interval, since every cell is its own base case" in refused.stderr
    assert remedy in " ".join(refused.stderr.split())
    tiny.write_text(f"{width}base: {remedy.partition('base: ')[2].rstrip('`')}\n")
    assert cli("study", tiny.name, "--dry-run").returncode == 0


@pytest.mark.parametrize("lists", ["ranks: [1, 2]", "ranks: 1"], ids=["two sizes", "the A/A pair alone"])
def test_width_with_a_ratio_is_accepted(cli: Cli, tiny: Path, lists: str) -> None:
    tiny.write_text(f"{FILE.replace('ranks: [1, 2]', lists)}repetitions: {{width: 0.05}}\n")
    assert cli("study", tiny.name, "--dry-run").returncode == 0


def test_options_may_precede_the_study(cli: Cli) -> None:
    finished = cli("study", "--dry-run", "--rounds", "1", "--shrink", "ghimire")
    assert finished.returncode == 0, finished.stderr
    assert "3 launches" in finished.stdout


def test_init_writes_an_example_that_is_valid(cli: Cli, tmp_path: Path) -> None:
    assert cli("study", "init", "mine.yaml").returncode == 0
    assert study_files.read(tmp_path / "mine.yaml").name == "mine"
    assert cli("study", "init", "mine.yaml").returncode == 2


def test_list_names_every_packaged_study(cli: Cli) -> None:
    assert [listed["name"] for listed in json.loads(cli("study", "list", "--json").stdout)] == study_files.names()


def test_schema_has_every_key(cli: Cli) -> None:
    assert set(json.loads(cli("study", "schema").stdout)["properties"]) == set(type(study()).model_fields)


def test_status_shows_measured_and_remaining_launches(cli: Cli, tmp_path: Path) -> None:
    resumable_study.create(tmp_path / "tiny-study", study(repetitions=2))
    planned = Schedule(study(), cells(study()), []).next()
    assert planned
    with journal.opened(tmp_path / "tiny-study") as current:
        current.end(launch(planned, 64.0))
    report = json.loads(cli("study", "status", "tiny-study", "--json").stdout)
    assert (report["runner"], report["complete"], report["launches"]) == (None, False, 1)
    assert report["left"] == "5 launches left, about 0:00:50"
    assert [row["images_per_second"] for row in report["cells"]] == [64.0, None, None]
    assert "not running" in cli("study", "status").stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("nothing.yaml",), "no included study has this name"),
        (("run",), "name a file, or an included study"),
        (("--resume",), "no study is here"),
        (("report", "other-study"), "change to the directory in which you started the study"),
        (("other", "--resume"), "neither other nor other-study is in the working directory"),
        (("tiny.yaml", "--data", "mnist"), "expected DATASET=DIR"),
        (("sztaki-2022", "--dry-run"), "did you mean sztaki-2023?"),
        (("states",), "'states', did you mean status?"),
        (("reports", "tiny-study"), "'reports', did you mean report?"),
    ],
)
def test_wrong_command_names_its_remedy(cli: Cli, tiny: Path, words: tuple[str, ...], reason: str) -> None:
    finished = cli("study", *words)
    assert finished.returncode == 2
    assert reason in finished.stderr


def test_head_refuses_a_study_that_needs_deploys(cli: Cli, tiny: Path) -> None:
    tiny.write_text(FILE.replace("ranks", "nodes"))
    finished = cli("study", tiny.name, "--detach")
    assert finished.returncode == 2
    assert "the head cannot change the number of nodes" in finished.stderr
    assert "without --detach on a machine that stays on" in finished.stderr
    assert not (tiny.parent / "tiny-study").exists()


def test_status_shows_the_progress_of_the_head(cli: Cli, tmp_path: Path) -> None:
    state_dir, directory = builders.deployed(), tmp_path / "tiny-study"
    resumable_study.create(directory, study(repetitions=2))
    order = Schedule(study(), cells(study()), []).certain()[:3]
    launches = [started(planned, f"lenet-mnist-{number}") for number, planned in enumerate(order)]
    for name in ["queue-1", *(each.run for each in launches)]:
        store.save(state_dir, builders.run(id=name))
    for name in ("queue-1", "lenet-mnist-0"):
        RunStatus(state="stopped", exit_code=143, started=1.0, ended=2.0).write(state_dir.runs / name / "status.json")
    record, _ = state.deployed(state_dir)
    state.write(state_dir, record.model_copy(update={"cluster": None}))
    with journal.opened(directory) as current:
        current.enqueue(Queued(cluster="default", run="queue-1", launches=launches))
    report = json.loads(cli("study", "status", "tiny-study", "--json").stdout)
    assert report["queue"] == {
        "queue": "queue-1", "cluster": "default", "state": "stopped", "ended": 1, "launches": 3
    }  # fmt: skip
    assert "queue-1 on the head: stopped, 1 of 3 launches ended" in cli("study", "status").stdout


def test_study_needs_a_deployed_cluster(cli: Cli, tiny: Path) -> None:
    finished = cli("study", tiny.name)
    assert finished.returncode == 1
    assert "cluster 'default' is not deployed" in finished.stderr
    assert not (tiny.parent / "tiny-study").exists()


@pytest.mark.parametrize(
    ("change", "words", "reason"),
    [
        ("[1, 2]", ("--cluster", "nope"), "cluster 'nope' is not deployed"),
        ("[1, 3]", (), "ours: lenet on mnist, 3 ranks: cluster 'default' has 2 slots"),
        ("[1, 2]\nengines: torch-ddp\noptions: {augment: false}", (), "`orchestrator deploy --framework both`"),
        ("[1, 2]", ("--data", "mnist=nothing"), "/nothing: no such directory"),
        ("[1, 2]\ndata: {mnist: /nonexistent}", (), "data.mnist: /nonexistent: no such directory"),
        ("[1, 2]", ("--data", "foo=."), "--data: 'foo': no cell has this data set, expected one of ['mnist']"),
    ],
)
def test_refused_study_leaves_no_directory(cli: Cli, tiny: Path, change: str, words: tuple[str, ...],
                                           reason: str) -> None:  # fmt: skip
    builders.deployed()
    tiny.write_text(FILE.replace("[1, 2]", change).replace("time: 60s", "steps: 2"))
    dry = () if "nope" in words else ("--dry-run",)  # a dry run needs no cluster
    for more in ((), ("--detach",), dry):
        finished = cli("study", tiny.name, *words, *more)
        assert finished.returncode in (1, 2)
        assert reason in finished.stderr
    assert not (tiny.parent / "tiny-study").exists()


@pytest.mark.parametrize("name", ["tu-2019", "sztaki-2023"])
def test_study_needs_the_directory_of_data_that_cannot_be_downloaded(cli: Cli, tmp_path: Path, name: str) -> None:
    for mode in ([], ["--dry-run"]):
        finished = cli("study", name, *mode)
        assert (finished.returncode, finished.stdout) == (2, "")
        assert "data.imagenet: imagenet cannot be downloaded without an account" in finished.stderr
        assert "--data DATASET=DIR" in finished.stderr
    assert list(tmp_path.glob("*-study")) == []
    for words in (("--data", "imagenet=."), ("--shrink",)):
        assert cli("study", name, "--dry-run", *words).returncode == 0


def test_remedy_for_missing_slots_deploys_enough_nodes(cli: Cli, tiny: Path) -> None:
    builders.deployed()
    tiny.write_text(FILE.replace("[1, 2]", "[1, 3]"))
    assert "`orchestrator deploy --nodes 3`" in cli("study", tiny.name).stderr


def test_remedy_for_missing_slots_deploys_no_more_nodes_than_a_cluster_has(cli: Cli, tiny: Path) -> None:
    builders.deployed()
    tiny.write_text(FILE.replace("[1, 2]", "[1, 101]"))
    refused = cli("study", tiny.name).stderr
    assert "deploy --nodes" not in refused
    assert "deploy with more `slots` in cluster.yaml: a cluster has at most 100 nodes" in refused


def test_room_for_the_largest_cell_is_checked_before_the_first_launch(engine: Connect) -> None:
    builders.deployed()
    engine({"/info": (200, [{"NCPU": 4, "MemTotal": 1, "DockerRootDir": "/nowhere"}])})  # no room for one node

    def require_room(nodes: list[int], deploys: bool) -> None:
        of = study(ranks=None, nodes=nodes)
        study_checks.require_room(Config(), of, cells(of), launch_options.deployed_for_trainer, deploys)

    require_room([1, 2], True)
    require_room([1, 2], False)
    with pytest.raises(PreflightError) as caught:
        require_room([2, 90], True)
    assert any("nodes: 90: each would have" in finding.message for finding in caught.value.findings)


@pytest.mark.parametrize("words", ["tiny", "tiny-study", "tiny.yaml"])
def test_resume_finds_the_directory_and_its_cluster(cli: Cli, tmp_path: Path, words: str) -> None:
    (tmp_path / "tiny.yaml").write_text(FILE)
    resumable_study.create(tmp_path / "tiny-study", study())
    resumable_study.write_cluster(tmp_path / "tiny-study", "other")
    assert "cluster 'other' is not deployed" in cli("study", words, "--resume").stderr
    assert "cluster 'third' is not deployed" in cli("study", words, "--resume", "--cluster", "third").stderr


@pytest.mark.parametrize(
    ("source", "is_refused"), [("tiny", False), ("tiny.yaml", False), ("a", False), ("other", True), ("ghimire", True)]
)
def test_directory_to_resume_holds_the_named_study(cli: Cli, tmp_path: Path, source: str, is_refused: bool) -> None:
    (tmp_path / "tiny.yaml").write_text(FILE)
    resumable_study.create(tmp_path / "a-study", study())
    refused = cli("study", source, "--resume", "--directory", "a-study", "--dry-run")
    reason = f"study {source} --resume: a-study holds another study, 'tiny'"
    assert (reason in refused.stderr) == is_refused
    assert ("`orchestrator study a-study --resume` continues it" in refused.stderr) == is_refused
    assert refused.returncode == 2 * is_refused


@pytest.mark.parametrize(("form", "command"), [("study --resume", "study a-study --resume"),
                                               ("study status", "study status a-study")])  # fmt: skip
def test_remedies_name_a_command_that_works(cli: Cli, tmp_path: Path, form: str, command: str) -> None:
    assert "`orchestrator study FILE` starts one" in cli(*form.split()).stderr
    for name in "ab":
        resumable_study.create(tmp_path / f"{name}-study", study())
    finished = cli(*form.split())
    assert "2 studies are here: a-study, b-study" in finished.stderr
    assert f"`orchestrator {command}`" in finished.stderr
    builders.deployed()
    assert "no study" not in cli(*command.split(), "--json").stderr


def test_remedies_quote_names_with_spaces(cli: Cli, tmp_path: Path) -> None:
    for name in ("a b", "c"):
        resumable_study.create(tmp_path / f"{name}-study", study())
    assert "`orchestrator study 'a b-study' --resume`" in cli("study", "--resume").stderr
    (tmp_path / "my studies").mkdir()
    assert "`orchestrator study 'my studies/d.yaml' --dry-run`" in cli("study", "init", "my studies/d.yaml").stderr


def test_complete_study_has_no_launches_for_the_head(tmp_path: Path) -> None:
    directory = tmp_path / "tiny study"
    ended_study(directory, {1: 100.0, 2: 100.0})
    deployed = launch_options.deployed_for_trainer
    with reachable("demo", slots=2) as config, pytest.raises(StateError, match="no launch is left") as caught:
        study_runner.detach(config, directory, study(repetitions=1), deployed, False)
    assert caught.value.hint == f"`orchestrator study report '{directory}'` reports it"


def ended_study(directory: Path, images: dict[int, float]) -> None:
    """Write a study whose cells measured ``images`` by their ranks; those without images were given up."""
    resumable_study.create(directory, study(repetitions=1))
    launches: list[Launch] = []
    finish(Schedule(study(repetitions=1), cells(study()), launches), launches,
           lambda planned: images[planned.contestant.cell.ranks])  # fmt: skip
    with journal.opened(directory) as current:
        for each in launches:
            current.end(each)


def test_status_names_the_cells_that_were_given_up(cli: Cli, tmp_path: Path) -> None:
    ended_study(tmp_path / "tiny-study", {1: 100.0, 2: 0.0})
    text = cli("study", "status").stdout
    assert "study tiny: ended, with cells given up" in text
    assert "given up: ours: lenet on mnist, 2 ranks: rank 0 raised an error" in text
    assert "`orchestrator study tiny-study --resume` continues it, and tries the cells again" in text
    report = json.loads(cli("study", "status", "--json").stdout)
    assert report["given_up"] == {"ours: lenet on mnist, 2 ranks": "rank 0 raised an error"}


@pytest.mark.parametrize(("images", "what"), [(100.0, "some cells were given up"), (0.0, "nothing was measured")])
def test_study_with_cells_given_up_fails(tmp_path: Path, images: float, what: str) -> None:
    """Its launches fail again, since their data set is gone."""
    directory = tmp_path / "tiny-study"
    ended_study(directory, {1: images, 2: 0.0})
    resumed = study(repetitions=1, data={"mnist": tmp_path / "gone"})
    with reachable("demo", slots=2) as config, pytest.raises(RunFailed, match=f"{what}: .*/gone: ") as caught:
        study_run._run(config, directory, resumed, True, False)
    assert caught.value.exit_code == 1
    assert f"`orchestrator study {directory} --resume` then tries" in caught.value.hint


def test_complete_study_succeeds(tmp_path: Path) -> None:
    ended_study(tmp_path / "tiny-study", {1: 100.0, 2: 100.0})
    with reachable("demo", slots=2) as config:
        study_run._run(config, tmp_path / "tiny-study", study(repetitions=1), True, False)


def test_collected_launch_is_no_time_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_study(tmp_path / "tiny-study", {1: 12345.0, 2: 100.0})
    [collected, *_] = journal.read(tmp_path / "tiny-study")
    monkeypatch.setattr(Launcher, "collect", lambda _: collected)
    with reachable("demo", slots=2) as config:
        deployed = launch_options.deployed_for_trainer
        sitting = study_runner.run(config, tmp_path / "tiny-study", study(repetitions=1), deployed, True)
    assert (sitting.launches, sitting.overhead) == ([], 0.0)
    assert "started before the study was ended\n" in capsys.readouterr().err


def test_high_speeds_are_shown_in_full(cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended_study(tmp_path / "tiny-study", {1: 123456.0, 2: 23456.0})
    text = cli("study", "status").stdout
    assert "123,456" in text
    assert "23,456" in text
    schedule = Schedule(study(), cells(study()), [])
    progress_messages.tell(launch(schedule.certain()[0], 123456.0), schedule)
    assert "  123,456 images/s, 10.0 s" in capsys.readouterr().err


def test_relative_data_of_a_study_file_is_that_of_its_first_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = study(data={"mnist": "mnist"})
    assert study_options.changed(tiny, {"data": {}}).data == {"mnist": tmp_path / "mnist"}
    assert study_options.changed(tiny, {"data": {"mnist": Path("/other")}}).data == {"mnist": Path("/other")}


def begun(directory: Path, kind: str, shrink: dict[str, Any] | None = None) -> None:
    """Write a study whose first launch is ``kind``: in the journal, under way, or made by the head."""
    resumable_study.create(directory, study(shrink=shrink or {"batch": 8}))
    resumable_study.write_cluster(directory, "default")
    planned = Schedule(study(), cells(study()), []).certain()[0]
    with journal.opened(directory) as current:
        if kind == "ended":
            current.end(launch(planned))
        elif kind == "under way":
            current.begin(started(planned))
        else:
            current.enqueue(Queued(cluster="default", run="queue-1", launches=[started(planned)]))


@pytest.mark.parametrize("kind", ["ended", "under way", "queued"])
@pytest.mark.parametrize(
    ("shrink", "reason"),
    [
        ({"batch": 8}, "1 rank was launched and is no cell of the study now"),
        ({"until": {"steps": 2}}, "--shrink: the launches so far were not shrunk"),
    ],
)
def test_refused_resume_leaves_the_study_as_it_was(
    cli: Cli, tmp_path: Path, kind: str, shrink: dict[str, Any], reason: str
) -> None:
    builders.deployed()
    builders.deployed("other")
    begun(tmp_path / "tiny-study", kind, shrink)
    files = [tmp_path / "tiny-study" / name for name in (journal.STUDY, journal.CLUSTER)]
    before = [path.read_text() for path in files]
    refused = cli("study", "tiny", "--resume", "--shrink", "--cluster", "other")
    assert refused.returncode == 1
    assert reason in refused.stderr
    assert [path.read_text() for path in files] == before


@pytest.mark.parametrize("words", [(), ("--detach",)])
@pytest.mark.parametrize("kind", ["under way", "queued"])
def test_resume_on_another_cluster_first_collects_the_launches_under_way(
    cli: Cli, tmp_path: Path, kind: str, words: tuple[str, ...]
) -> None:
    """A study that forgot them would make the launches of the head a second time."""
    state_dir, directory = builders.deployed(), tmp_path / "tiny-study"
    builders.deployed("other")
    begun(directory, kind)
    run = "queue-1" if kind == "queued" else "lenet-mnist-0"
    store.save(state_dir, builders.run(id=run))
    RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0).write(state_dir.runs / run / "status.json")
    before = {path: path.read_text() for path in directory.iterdir() if path.name != journal.LOCK}
    refused = cli("study", "tiny", "--resume", "--cluster", "other", *words)
    assert refused.returncode == 1
    assert f"{run} on cluster 'default' is not collected, and cluster 'other' cannot collect it" in refused.stderr
    assert "`orchestrator study tiny-study --resume --cluster default` collects it" in refused.stderr
    assert f"`orchestrator stop {run}` ends it, then remove tiny-study/" in refused.stderr
    assert {path: path.read_text() for path in before} == before


@pytest.mark.parametrize(("words", "deploys"), [((), 0), (("--deploy",), 2)])
def test_resume_leaves_the_nodes_of_a_study_without_deploys(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], deploys: int
) -> None:
    builders.deployed()
    resumable_study.create(tmp_path / "tiny-study", study(ranks=None, nodes=[1, 2], repetitions=2))
    resumable_study.write_deploys(tmp_path / "tiny-study", False)
    planned = json.loads(cli("study", "tiny", "--resume", "--dry-run", "--json", *words).stdout)
    assert planned["deploys"] == deploys


@pytest.mark.parametrize("deploys", [True, False])
def test_study_writes_down_whether_it_deploys(tmp_path: Path, deploys: bool) -> None:
    ended_study(tmp_path / "tiny-study", {1: 100.0, 2: 100.0})
    with reachable("demo", slots=2) as config:
        study_run._run(config, tmp_path / "tiny-study", study(repetitions=1), deploys, False)
    assert resumable_study.read_deploys(tmp_path / "tiny-study") == deploys


@pytest.mark.parametrize("kind", ["ended", "under way", "queued"])
@pytest.mark.parametrize("cluster", ["default", "other"])
def test_resume_needs_no_launch_of_a_cluster_that_is_gone(tmp_path: Path, kind: str, cluster: str) -> None:
    """Its launches are made again: `teardown` ended them."""
    begun(tmp_path / "tiny-study", kind)
    store.save(state.for_cluster("default"), builders.run(id="lenet-mnist-0"))
    with journal.opened(tmp_path / "tiny-study") as current:
        resume_checks.require_same_cluster(current, cluster)


def test_run_that_was_never_recorded_binds_no_cluster(tmp_path: Path) -> None:
    builders.deployed()
    begun(tmp_path / "tiny-study", "under way")
    with journal.opened(tmp_path / "tiny-study") as current:
        resume_checks.require_same_cluster(current, "other")


def test_resume_changes_nothing_while_another_process_runs_the_study(cli: Cli, tmp_path: Path) -> None:
    builders.deployed()
    begun(tmp_path / "tiny-study", "ended")
    before = (tmp_path / "tiny-study" / journal.STUDY).read_text()
    with journal.opened(tmp_path / "tiny-study"):
        assert "this study is run by" in cli("study", "tiny", "--resume", "--rounds", "9").stderr
    assert (tmp_path / "tiny-study" / journal.STUDY).read_text() == before


@pytest.mark.parametrize("words", ["tiny", "tiny-study", "tiny.yaml"])
def test_status_finds_the_directory(cli: Cli, tiny: Path, words: str) -> None:
    resumable_study.create(tiny.parent / "tiny-study", study())
    assert "study tiny: not running" in cli("study", "status", words).stdout


def test_status_of_a_directory_without_a_study_says_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "empty: no study is here: study.yaml is missing" in cli("study", "status", "empty").stderr


@pytest.mark.parametrize(("file", "name"), [("1.yaml", "1"), ("true.yaml", "true"), ("n" * 30 + ".yaml", "n" * 30)])
def test_new_study_has_the_name_of_its_file(cli: Cli, tmp_path: Path, file: str, name: str) -> None:
    assert cli("study", "init", file).returncode == 0
    assert study_files.read(tmp_path / file).name == name
    assert f"./{name}-study" in (tmp_path / file).read_text()


def test_file_whose_name_names_no_study_is_refused(cli: Cli, tmp_path: Path) -> None:
    refused = cli("study", "init", "my study.yaml")
    assert refused.returncode == 2
    assert "'my study'" in refused.stderr
    assert list(tmp_path.glob("*.yaml")) == []


HARDWARE = "6.1\n2\nmodel name\t: Fast 9000\n16384000\navx2\n\n"
MACHINE = machine_description.describe(HARDWARE, builders.cluster(1))


@contextmanager
def reachable(name: str, hardware: str = HARDWARE, **node: Any) -> Iterator[Config]:
    """Deploy a cluster of one node that answers with its ``hardware``, and yield its configuration."""
    with ssh_stand_in.listening(lambda _: hardware.encode()) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key, name, **node)
        config = Config(name=name, nodes=1)
        state.write(state_dir, Record(id="1a2b3c4d", config=config.model_dump(mode="json"), cluster=cluster))
        yield config


def resume(config: Config, directory: Path) -> None:
    """Open a study, as --resume does before its first launch."""
    with study_runner._opened(config, directory, study(repetitions=3), launch_options.deployed_for_trainer, True):
        pass


def measured_on(directory: Path, machine: dict[str, str], images: float | None = 100.0) -> None:
    """Write a study with one launch, on a machine."""
    resumable_study.create(directory, study())
    resumable_study.write_cluster(directory, "default")
    machine_description.write(directory, machine)
    with journal.opened(directory) as current:
        current.end(launch(Schedule(study(), cells(study()), []).certain()[0], images))


@pytest.mark.parametrize("cluster", ["default", "other"])
@pytest.mark.parametrize(
    ("cores", "gpus", "difference"),
    [
        (4, 0, "processor: Fast 9000, 2 cores, now Fast 9000, 4 cores"),
        (2, 1, "each node: 2 CPUs, 0 GPUs and 1 slots, now 2 CPUs, 1 GPUs"),
    ],
)
def test_resume_on_other_machines_is_refused(
    tmp_path: Path, cluster: str, cores: int, gpus: int, difference: str
) -> None:
    """Their launches would be paired with those of the machines before."""
    directory = tmp_path / "tiny-study"
    measured_on(directory, MACHINE)
    before = {path: path.read_text() for path in directory.iterdir() if path.name != journal.LOCK}
    hardware = HARDWARE.replace("\n2\n", f"\n{cores}\n")
    with reachable(cluster, hardware, gpus=gpus) as config, pytest.raises(StateError, match=difference) as caught:
        resume(config, directory)
    assert f"study {directory}/study.yaml --directory NEW" in caught.value.hint
    assert ("--cluster other" in caught.value.hint) == (cluster == "other")
    assert {path: path.read_text() for path in before} == before


@pytest.mark.parametrize(
    ("before", "images"),
    [
        ({"kernel": "5.15"}, 100.0),
        ({"nodes": "3"}, 100.0),  # the ranks fill the first nodes
        ({"processor": "Slow 1, 1 cores"}, None),  # which measured nothing
    ],
)
def test_resume_on_machines_as_fast_continues(tmp_path: Path, before: dict[str, str], images: float | None) -> None:
    measured_on(tmp_path / "tiny-study", {**MACHINE, **before}, images)
    with reachable("other") as config:
        resume(config, tmp_path / "tiny-study")
    assert machine_description.read(tmp_path / "tiny-study") == MACHINE
    assert resumable_study.read_cluster(tmp_path / "tiny-study") == "other"


def deployed_on_gpus(nodes: int, **changes: Any) -> Config:
    """Write the state of a cluster whose workers have two GPUs each, and its head none."""
    state_dir = builders.deployed(nodes=nodes)
    built = builders.cluster(nodes, slots=2, gpus=2)
    head = built.nodes[built.head].model_copy(update={"gpus": 0, "slots": 8})
    built = built.model_copy(update={"nodes": {**built.nodes, built.head: head}})
    state.write(state_dir, builders.read_record(state_dir).model_copy(update={"cluster": built, **changes}))
    return Config()


def test_head_without_a_gpu_is_no_node_of_ranks() -> None:
    config, of = deployed_on_gpus(3), study(ranks=None, nodes=[2, 3])
    every = study_checks.cells(config, of)
    assert [(cell.nodes, cell.ranks) for cell in every] == [(2, 2), (3, 4)]
    study_checks.require_room(config, of, every, launch_options.deployed_for_trainer, deploys=False)
    launches: list[Launch] = []
    finish(Schedule(of, every, launches), launches)
    summary = status.summarise(of, launches, None)
    assert summary.complete
    assert [row.launches for row in summary.cells] == [6, 6, 6]


def test_cell_of_a_lone_head_without_a_gpu_is_refused() -> None:
    with pytest.raises(ConfigError, match="lenet on mnist, 1 node: its only node is the head, which has no GPU"):
        study_checks.cells(deployed_on_gpus(3), study(ranks=None, nodes=[1, 2]))


def test_study_of_nodes_needs_a_worker_if_the_head_has_no_gpu() -> None:
    machines = {"local": {"head": {"gpus": 0}, "worker": {"gpus": 2}}}
    with pytest.raises(ConfigError, match="its only node is the head") as caught:
        study_checks.cells(deployed_on_gpus(1, applied=machines), study(ranks=None, nodes=[2, 3]))
    assert "`orchestrator deploy --nodes 2`" in caught.value.hint
    assert study_checks.cells(deployed_on_gpus(1, applied=machines), study(ranks=[1, 2]))


def test_remedy_for_missing_slots_counts_an_idle_head(cli: Cli, tiny: Path) -> None:
    deployed_on_gpus(2)
    tiny.write_text(FILE.replace("[1, 2]", "[1, 4]"))
    assert "`orchestrator deploy --nodes 3`" in cli("study", tiny.name).stderr
