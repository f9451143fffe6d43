"""Malformed files from a head: refused with the node, the file, the value and the remedy."""

import pytest

from orchestrator import node_health, ssh, state
from orchestrator.errors import ContractError
from orchestrator.runs import gloo_or_mpi, resumed_run_config
from orchestrator.runs.launchers import hostfile
from orchestrator.schema import CheckpointEntry, Checkpoints, RunStatus
from orchestrator.state import StateDir
from tests import builders, samples
from tests.stand_ins import ssh_stand_in
from tests.stand_ins.ssh_stand_in import Answer

DAMAGED = {
    "empty": "",
    "cut": "{",
    "deep": "[" * 100_000,
    "list": "[]",
    "twice": '{"a": 1, "a": 2}',
    "nan": '{"np": NaN}',
    "digits": f'{{"np": {"9" * 5000}}}',
    "large": " " * (16 << 20) + "{}",
}
RUN = builders.run(id="a", np=1)


def answer_with(word: str, output: str) -> Answer:
    """Return ``output`` for commands that contain ``word``, and the answers of an idle head for others."""

    def answer(command: str) -> bytes:
        if word in command:
            return output.encode()
        if command.endswith("hostfile"):
            return hostfile.text(builders.cluster(1), 1).encode()
        return b""

    return answer


def answer_with_each(outputs: dict[str, str]) -> Answer:
    """Return the output of the first word that a command contains, and none for other commands."""
    return lambda command: next((text.encode() for word, text in outputs.items() if word in command), b"")


def state_dir_with_finished_run() -> StateDir:
    """Write a state directory with a finished run, whose state is not queried on the head."""
    state_dir = state.for_cluster("demo")
    status = RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0)
    state.replace(state_dir.runs / RUN.id / "status.json", status.model_dump_json())
    return state_dir


def refused(caught: "pytest.ExceptionInfo[ContractError]", name: str, remedy: str) -> None:
    assert caught.value.message.startswith(f"demo-head: {name}: ")
    assert len(caught.value.message) < 2000
    assert remedy in caught.value.hint


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_report_of_a_node_is_refused(kind: str) -> None:
    cluster = builders.cluster(1)
    with (
        ssh_stand_in.session(answer_with("telemetry.node_report", DAMAGED[kind])) as head,
        pytest.raises(ContractError) as caught,
    ):
        node_health.node_report(head, cluster, cluster.nodes["demo-head"])
    refused(caught, "report of the node", "`orchestrator deploy --cluster demo`")


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_measurement_is_refused(kind: str) -> None:
    state_dir = state_dir_with_finished_run()
    with (
        ssh_stand_in.session(answer_with("check.json", DAMAGED[kind])) as head,
        pytest.raises(ContractError) as caught,
    ):
        gloo_or_mpi._step(state_dir, head, RUN, builders.cluster(1))
    refused(caught, f"{RUN.directory}/check.json", "`orchestrator check --cluster demo`")


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_configuration_of_a_run_is_refused(kind: str) -> None:
    state_dir = state_dir_with_finished_run()
    entry = CheckpointEntry(name="epoch-0001", epoch=1, step=4, world=1, whole=True)
    outputs = {"index.json": Checkpoints(entries=[entry]).model_dump_json(), "ls ": entry.name, "config": DAMAGED[kind]}
    with (
        ssh_stand_in.session(answer_with_each(outputs)) as head,
        pytest.raises(ContractError) as caught,
    ):
        resumed_run_config.read(state_dir, head, RUN)
    refused(caught, f"{RUN.directory}/config.json", "restore it from a copy")


def test_checkpoints_that_are_gone_are_left_out() -> None:
    state_dir = state_dir_with_finished_run()
    entries = [CheckpointEntry(name=f"epoch-000{n}", epoch=n, step=4 * n, world=1, whole=True) for n in (1, 2)]
    outputs = {
        "index.json": Checkpoints(entries=entries).model_dump_json(),
        "ls ": "epoch-0001\nindex.json\n",
        "config": samples.train_config().model_dump_json(),
    }
    with ssh_stand_in.session(answer_with_each(outputs)) as head:
        _, index = resumed_run_config.read(state_dir, head, RUN)
    assert index.entries == entries[:1]


def test_error_names_the_key_and_its_value() -> None:
    text = builders.node_report().model_dump_json().replace('"resolves":true', '"resolves":"perhaps"')
    with ssh_stand_in.session() as head, pytest.raises(ContractError, match="a file: resolves: 'perhaps': "):
        ssh.parsed(type(builders.node_report()), text, head, "a file")
