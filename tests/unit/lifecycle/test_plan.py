"""All findings at once, and costs."""

import pytest

from orchestrator import config, providers, state
from orchestrator.config import Config
from orchestrator.config.provider_sections import OpenStack
from orchestrator.errors import ConfigError, PreflightError, StateError, gather
from orchestrator.lifecycle import deploy, plan, prices
from orchestrator.ssh import key_pair
from orchestrator.state import StateDir
from tests import builders


def refuse(message: str, hint: str) -> None:
    raise PreflightError(message, hint)


def test_one_finding_is_an_error_with_its_remedy() -> None:
    with pytest.raises(PreflightError) as caught:
        gather(lambda: None, lambda: refuse("no image 'x'", "choose another"))
    assert (caught.value.message, caught.value.hint) == ("no image 'x'", "choose another")


def test_nested_findings_are_one_error_with_all_remedies() -> None:
    def nested() -> None:
        gather(lambda: refuse("b", "do b"), lambda: refuse("c", "do c"))

    with pytest.raises(PreflightError) as caught:
        gather(lambda: refuse("a", "do a"), nested)
    assert caught.value.message.splitlines() == ["a", "    do a", "b", "    do b", "c", "    do c"]
    assert caught.value.exit_code == 2


def test_no_finding_is_no_error() -> None:
    gather(lambda: None)


def test_bill_has_priced_resources_and_names_the_others() -> None:
    items = prices.bill({"gpu.a100": 7, "cpu.small": 1}, {"gpu.a100": 1.5})
    assert [(item.name, item.sum) for item in items] == [("gpu.a100", 10.5), ("cpu.small", None)]
    assert prices.total(items, "EUR") == "10.50 EUR per hour, plus resources without a price in `prices`: cpu.small"
    assert prices.total(items[:1], "EUR") == "10.50 EUR per hour"


def test_bill_without_prices_has_no_sum() -> None:
    items = prices.bill({"gpu.a100": 7, "cpu.small": 1}, {})
    assert prices.total(items, "EUR") == "no price in `prices`: gpu.a100, cpu.small"
    assert prices.total(prices.bill({"cpu.small": 1}, {"cpu.small": 0.0}), "EUR") == "0.00 EUR per hour"


def test_deploy_prints_whole_cluster_and_cost_first(capsys: pytest.CaptureFixture[str]) -> None:
    servers = OpenStack(image="debian-12", flavor="gpu.a100", head_flavor="cpu.small")
    settings = Config(provider="openstack", nodes=3, openstack=servers, prices={"gpu.a100": 1.5, "cpu.small": 0.1})
    deploy._print_costs(settings, providers.get("openstack"))
    assert capsys.readouterr().err == "cluster of 1 x cpu.small, 2 x gpu.a100: 3.10 EUR per hour\n"


@pytest.mark.parametrize(
    ("flags", "problems"),
    [
        (
            {"provider": "openstack"},
            [
                "openstack.image: needed with provider openstack",
                "openstack.flavor: needed with provider openstack",
            ],
        ),
        ({"provider": "gcp"}, ["gcp.zone: needed with provider gcp"]),
        ({"provider": "hosts"}, ["hosts.addresses: needed with provider hosts"]),
        ({"nodes": 2, "min_nodes": 3}, ["min_nodes: 3 are more than the 2 nodes requested"]),
        (
            {"provider": "hosts", "hosts.addresses": ["a@192.0.2.1"], "nodes": 2},
            ["nodes: 2 asked for, hosts.addresses has 1"],
        ),
    ],
)
def test_conflicting_settings_are_refused(flags: dict[str, object], problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(None, flags)
    assert caught.value.problems == problems


def test_teardown_of_orphans_needs_only_the_provider() -> None:
    assert config.load(None, {"provider": "openstack"}, whole=False).provider == "openstack"


def test_hosts_default_to_as_many_nodes_as_listed() -> None:
    listed = ["a@192.0.2.1:2222", "192.0.2.2", {"address": "192.0.2.3", "user": "b"}]
    loaded = config.load(None, {"provider": "hosts", "hosts.addresses": listed})
    assert loaded.nodes == 3
    assert [(h.user, h.address, h.port) for h in loaded.hosts.addresses] == [
        ("a", "192.0.2.1", 2222),
        (None, "192.0.2.2", 22),
        ("b", "192.0.2.3", 22),
    ]


def test_password_of_the_notebook_is_in_no_dump() -> None:
    word = "long enough"
    loaded = config.load(None, {"jupyter_password": word})
    assert loaded.jupyter_password == word
    assert word not in loaded.model_dump_json()


def test_valid_parts_of_an_invalid_configuration_are_used() -> None:
    loaded = config.usable({"provider": "openstack", "nodes": "many", "openstack": {"cloud": "mine", "colour": "blue"}})
    assert (loaded.provider, loaded.openstack.cloud, loaded.nodes) == ("openstack", "mine", 2)


def with_storage(provider: str, storage: str) -> StateDir:
    """Write the state of a deployed cluster that has no key."""
    state_dir = builders.deployed("demo", provider=provider)
    record = builders.read_record(state_dir)
    stored = builders.cluster().model_copy(update={"storage": storage})
    state.write(state_dir, record.model_copy(update={"cluster": stored}))
    return state_dir


@pytest.mark.parametrize("provider", ["openstack", "gcp"])
def test_lost_key_of_a_cloud_is_refused_instead_of_replacing_nodes(provider: str) -> None:
    state_dir = with_storage(provider, "nfs")
    with pytest.raises(StateError) as caught:
        plan.preflight(Config.model_validate({"name": "demo", "provider": provider}))
    assert caught.value.message.startswith(f"{state_dir.key} is missing: another key would replace every node")
    assert "restore it from a copy" in caught.value.hint
    assert "`orchestrator teardown --cluster demo`" in caught.value.hint
    assert not state_dir.key.exists()


@pytest.mark.parametrize(("provider", "storage"), [("local", "mounted"), ("hosts", "nfs"), ("hosts", "mounted")])
def test_lost_key_is_replaced_if_shared_storage_stays(provider: str, storage: str) -> None:
    state_dir = with_storage(provider, storage)
    plan._require_key(state_dir, builders.read_record(state_dir))


def test_key_may_be_missing_before_a_head_was_reached() -> None:
    state_dir = with_storage("gcp", "nfs")
    record = builders.read_record(state_dir)
    plan._require_key(state_dir, record.model_copy(update={"host_keys": {}}))
    key_pair.public_half(state_dir.key)
    plan._require_key(state_dir, record)
