"""Links by name."""

import pytest

from orchestrator.errors import ConfigError
from orchestrator.prediction import link_kinds
from orchestrator.prediction.link_kinds import Named


@pytest.mark.parametrize(
    ("link", "latency", "named"),
    [
        ("10gbit", None, Named(1e10, "tcp")),
        ("200mbit", "2ms", Named(2e8, "tcp", 2e-3)),
        ("25gbit-roce", "5us", Named(2.5e10, "roce", 5e-6)),
        ("2.5 Gbit/s", None, Named(2.5e9, "tcp")),
        ("100GBIT-IB", None, Named(1e11, "ib")),
        ("1250000kbyte", None, Named(1e10, "tcp")),
    ],
)
def test_rate_kind_and_latency_are_read(link: str, latency: str | None, named: Named) -> None:
    parsed = link_kinds.parse(link, latency)
    assert (parsed.rate, parsed.kind) == (named.rate, named.kind)
    assert parsed.latency == (None if named.latency is None else pytest.approx(named.latency))


@pytest.mark.parametrize(("link", "latency"), [("fast", None), ("10", None), ("10gbit-x", None), ("10gbit", "2")])
def test_other_words_are_refused_with_an_example(link: str, latency: str | None) -> None:
    with pytest.raises(ConfigError) as refused:
        link_kinds.parse(link, latency)
    assert "10gbit" in refused.value.hint or "50us" in refused.value.hint


def test_link_is_no_faster_than_its_rate_or_its_host() -> None:
    assert 1 / link_kinds.parse("1gbit").between_gpus().beta == pytest.approx(0.9 * 1.25e8)
    assert 1 / link_kinds.parse("100gbit").between_gpus().beta == pytest.approx(1.7e9)
    assert 1 / link_kinds.parse("100gbit").between_cpus(1).beta == pytest.approx(1e9)
