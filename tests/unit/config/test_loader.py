"""cluster.yaml combined with flags."""

from pathlib import Path

import pytest

from orchestrator import config
from orchestrator.config import Config
from orchestrator.errors import ConfigError, StateError
from tests import samples


def written(directory: Path, text: str) -> Path:
    path = directory / "cluster.yaml"
    path.write_text(text)
    return path


def test_defaults_apply_without_file_and_flags() -> None:
    assert config.load(None, {}) == Config()
    assert (Config().name, Config().nodes, Config().train.precision) == ("default", 2, None)


def test_dev_null_is_an_empty_file() -> None:
    assert config.load(Path("/dev/null"), {}) == Config()


def test_flags_override_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, "nodes: 3\nlocal: {cpus: 1.5, memory: 2}\n")
    loaded = config.load(path, {"nodes": 5, "local.cpus": 0.5, "slots": None})
    assert (loaded.nodes, loaded.local.cpus, loaded.local.memory, loaded.slots) == (5, 0.5, 2.0, None)


def test_deployed_configuration_is_the_base_without_a_file(tmp_path: Path) -> None:
    base = {"nodes": 7, "local": {"cpus": 0.5}}
    assert config.load(None, {"local.memory": 1.0}, base).local == config.Local(cpus=0.5, memory=1.0)
    assert config.load(written(tmp_path, "name: demo\n"), {}, base).nodes == 2


def test_loading_changes_neither_the_flags_nor_the_base() -> None:
    base = {"local": {"cpus": 1.0}}
    config.load(None, {"local.cpus": 2.0}, base)
    assert base == {"local": {"cpus": 1.0}}


def test_every_problem_is_reported_at_once_with_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, "nodes: 0\nlocal: {cpus: -1}\ntrain: {epochs: many}\n")
    with pytest.raises(ConfigError) as caught:
        config.load(path, {"launch.np": 0})
    places = [problem.split(": ")[:-2] for problem in caught.value.problems]
    file = str(path)
    assert places == [[file, "nodes"], [file, "local.cpus"], ["launch.np"], [file, "train.epochs"]]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodse: 3", "nodse: unknown key, did you mean nodes?"),
        ("local: {cpu: 2}", "local.cpu: unknown key, did you mean local.cpus?"),
        ("train: {modle: resnet20}", "train.modle: unknown key, did you mean train.model?"),
        ("zzzz: 3", "zzzz: unknown key"),
    ],
)
def test_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        config.load(path, {})
    assert caught.value.problems == [f"{path}: {problem}"]


@pytest.mark.parametrize("section", ["local:", "launch:", "train:"])
def test_empty_section_has_the_defaults(tmp_path: Path, section: str) -> None:
    assert config.load(written(tmp_path, section), {}) == Config()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes: 0", "nodes: 0: must be greater than or equal to 1"),
        ("nodes: 10000", "nodes: 10000: must be less than or equal to 100"),
        ("nodes: two", "nodes: 'two': must be a valid integer"),
        ("nodes: 2.5", "nodes: 2.5: must be a valid integer"),
        ("nodes: [2]", "nodes: [2]: must be a valid integer"),
        ("local: 5", "local: 5: "),
        ("openstack: {dns: [9.9.9.9, dns.example]}", "openstack.dns.1: is no IP address: write it like 9.9.9.9"),
        ("local: {subnet: 10.0.0.0/26}", "local.subnet: needs at least a /25"),
        ("local: {subnet: everywhere}", "local.subnet: 'everywhere'"),
        ("local: {memory: 0.1}", "local.memory: 0.1: must be greater than or equal to 0.3"),
        ("launch: {controller: nccl}", "launch.controller: 'nccl': must be 'auto', 'gloo' or 'mpi'"),
        ("train: {precision: int8}", "train.precision: 'int8'"),
        ("train: {seed: -1}", "train.seed: -1"),
        ("train: {seed: 99999999999}", "train.seed: 99999999999: must be less than or equal to 1000000000"),
        ("train: {learning_rate: .inf}", "train.learning_rate: inf: must be a finite number"),
        ("nodes: true", "nodes: true is neither a number nor a name"),
        ("local: {cpus: no}", "local.cpus: false is neither a number nor a name"),
        ("provider: mars", "provider: 'mars': must be 'local'"),
        ("monitoring: no", "monitoring: false is neither a number nor a name"),
        ("monitoring: {grafana: maybe}", "monitoring.grafana: 'maybe': must be 'auto', 'on' or 'off'"),
        ("monitoring: {retention_time: 30 days}", "monitoring.retention_time: '30 days': write it like 12h, 30d"),
        ("monitoring: {retention_time: 0d}", "monitoring.retention_time: '0d': write it like"),
        ("monitoring: {retention_time: 1000y}", "monitoring.retention_time: '1000y': at most 100 years"),
        ("monitoring: {retention_time: 36501d}", "monitoring.retention_time: '36501d': at most 100 years"),
        ("monitoring: {retention_time: 1\u0663d}", "monitoring.retention_time: '1\u0663d': write it like 12h"),
        ("monitoring: {retention_size: 1\u0663GB}", "monitoring.retention_size: '1\u0663GB': write it like 500MB"),
        (
            "monitoring: {grafana_image: \u00e4:1}",
            "monitoring.grafana_image: '\u00e4:1': write it like registry",
        ),
        (
            "monitoring: {receivers: [{email: a@b, smarthost: 'mail:2\u0665'}]}",
            "monitoring.receivers.0.smarthost: 'mail:2\u0665': write it like mail.example.org:587",
        ),
        ("monitoring: {retention_size: 10}", "monitoring.retention_size: 10: must be a valid string"),
        ("monitoring: {retention_size: 10G}", "monitoring.retention_size: '10G': write it like 500MB, 10GB or 1TB"),
        ("monitoring: {receivers: [{}]}", "monitoring.receivers.0: either `email` or `webhook`"),
        ("monitoring: {receivers: [{email: a@b}]}", "monitoring.receivers.0: email a@b needs `smarthost: HOST:PORT`"),
        (
            "monitoring: {receivers: [{email: a@b, smarthost: mail}]}",
            "monitoring.receivers.0.smarthost: 'mail': write it like mail.example.org:587",
        ),
        (
            "monitoring: {receivers: [{webhook: 'https://a/b', username: c}]}",
            "monitoring.receivers.0: webhook https://a/b goes without username",
        ),
        (
            "monitoring: {receivers: [{email: a@b, smarthost: 'mail:25', username: c}]}",
            "monitoring.receivers.0: `username` and `password_file`: set both or neither",
        ),
        (
            "monitoring: {receivers: [{webhook: 'https://a/b', tls: false}]}",
            "monitoring.receivers.0: webhook https://a/b goes without tls",
        ),
        ("monitoring: {receivers: [{webhook: a.b}]}", "monitoring.receivers.0.webhook: 'a.b': write it like https://"),
        ("monitoring_password: short", "monitoring_password: String should have at least 8 characters"),
        ("launch: {network_interface: eth0 eth1}", "launch.network_interface: 'eth0 eth1': write it like eth0"),
        ('launch: {network_interface: "{{x}}"}', "launch.network_interface: '{{x}}': write it like eth0"),
        ("launch: {network_interface: a-name-of-16-chr}", "launch.network_interface: 'a-name-of-16-chr': write"),
        ("allow_from: [10]", "allow_from.0: 10: write it like 198.51.100.0/24"),
        ("allow_from: [yes]", "allow_from.0: True: write it like 198.51.100.0/24"),
        ("prices: {a: yes}", "prices.a: true is neither a number nor a name"),
        ("hosts: {jump: 'x$(touch${IFS}a)'}", "hosts.jump: 'x$(touch${IFS}a)': write it like lab@gate.example.org:22"),
        ("hosts: {jump: '-oProxyCommand=a'}", "hosts.jump: '-oProxyCommand=a': write it like lab@gate.example.org"),
        ("hosts: {jump: 'lab@gate:2٢'}", "hosts.jump: 'lab@gate:2٢': write it like lab@gate.example.org:22"),
        ("hosts: {jump: ''}", "hosts.jump: '': write it like lab@gate.example.org:22"),
        ("hosts: {addresses: ['-oProxyCommand=a']}", "hosts.addresses.0.address: '-oProxyCommand=a': write it like"),
        ("hosts: {addresses: ['`a`@b']}", "hosts.addresses.0.user: '`a`': write it like lab"),
        ("hosts: {addresses: [{address: 'a;b'}]}", "hosts.addresses.0.address: 'a;b': write it like node1.example.org"),
    ],
)
def test_invalid_value_is_refused_with_the_valid_values(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        config.load(path, {})
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(f"{path}: {problem}")


@pytest.mark.parametrize("user", ["lab", "lab.two", "LAB\\two"])
def test_account_of_a_host_may_have_a_domain(tmp_path: Path, user: str) -> None:
    [host] = config.load(written(tmp_path, f"hosts: {{addresses: ['{user}@node1']}}"), {}).hosts.addresses
    assert (host.user, host.address) == (user, "node1")


@pytest.mark.parametrize(("written_as", "grafana"), [("on", "on"), ("off", "off"), ("auto", "auto"), ("yes", "on")])
def test_grafana_on_and_off_are_no_booleans_of_yaml(tmp_path: Path, written_as: str, grafana: str) -> None:
    assert config.load(written(tmp_path, f"monitoring: {{grafana: {written_as}}}"), {}).monitoring.grafana == grafana


def test_receiver_is_unchanged_after_it_was_stored(tmp_path: Path) -> None:
    receivers = "[{email: a@b, from: c@d, smarthost: 'e:25', username: f, password_file: g}, {webhook: 'http://h/i'}]"
    loaded = config.load(written(tmp_path, f"monitoring: {{receivers: {receivers}}}"), {})
    assert [receiver.sender for receiver in loaded.monitoring.receivers] == ["c@d", None]
    assert config.stored(loaded.model_dump(mode="json")) == loaded


def test_password_is_neither_shown_in_errors_nor_stored(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(written(tmp_path, "monitoring_password: s3cret"), {})
    assert "s3cret" not in str(caught.value)
    assert "monitoring_password" not in config.load(None, {"monitoring_password": "long enough"}).model_dump()


@pytest.mark.parametrize("name", ["a", "demo", "lab-2", "a" * 30])
def test_valid_host_name_is_accepted(name: str) -> None:
    assert config.load(None, {"name": name}).name == name


@pytest.mark.parametrize("name", ["", "2nd", "-a", "a-", "Demo", "a_b", "a.b", "a b", "a" * 31, "../up", "a\n"])
def test_invalid_host_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(ConfigError, match="1 to 30 of a-z"):
        config.load(None, {"name": name})


@pytest.mark.parametrize("jump", ["gate", "lab@gate.example.org:22", "a.b+c_d@10.0.0.1", "lab@example.org@gate"])
def test_jump_may_be_any_login_of_ssh(jump: str) -> None:
    assert config.load(None, {"hosts.jump": jump}).hosts.jump == jump


@pytest.mark.parametrize(
    ("written_as", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1.5 h", 5400), (45, 45)]
)
def test_duration_is_read_with_its_unit(written_as: object, seconds: float) -> None:
    assert config.load(None, {"train.max_time": written_as}).train.max_time == seconds


@pytest.mark.parametrize("written_as", ["soon", "-5s", "0", "5 days", "1h30m"])
def test_invalid_duration_is_refused(written_as: str) -> None:
    with pytest.raises(ConfigError, match=r"train\.max_time"):
        config.load(None, {"train.max_time": written_as})


@pytest.mark.parametrize(("written_as", "top1"), [("top1=0.75", 0.75), ("top1=.9", 0.9), ("top1=1", 1.0)])
def test_target_accuracy_is_read(written_as: str, top1: float) -> None:
    assert config.load(None, {"train.until": written_as}).train.until == written_as
    assert samples.train_config(until=written_as).until_top1 == top1


@pytest.mark.parametrize(
    "written_as", ["75", 75, 0.75, True, "top1=75", "top1=0", "top1=1.5", "top1 = 0.7", "top5=0.9", ""]
)
def test_invalid_target_accuracy_is_refused_with_the_form(written_as: object) -> None:
    with pytest.raises(ConfigError, match=r"train\.until: .*(top1=0\.75|neither a number nor a name)"):
        config.load(None, {"train.until": written_as})


def test_state_file_is_read_without_keys_of_other_versions() -> None:
    stored = {**Config(nodes=3).model_dump(mode="json"), "colour": "blue"}
    stored["local"]["gadget"] = 1
    assert config.stored(stored) == Config(nodes=3)


def test_invalid_value_in_a_state_file_is_named() -> None:
    with pytest.raises(StateError, match="nodes: 0: must be greater"):
        config.stored({"nodes": 0})
