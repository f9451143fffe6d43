"""The table of GPUs: names in clouds, drivers, and refused pairings."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from orchestrator import gpu_compatibility, packaged_files
from orchestrator.config import Framework
from orchestrator.config.gpu_section import Gpu
from orchestrator.errors import PreflightError
from orchestrator.gpu_compatibility import choose_driver

ALL = ("debian 12", "debian 13", "ubuntu 22.04", "ubuntu 24.04")


FRAMEWORKS: tuple[Framework, ...] = ("tensorflow", "pytorch")


def resolve(
    model: str | None, distribution: str | None = None, framework: Framework = "tensorflow", **section: Any
) -> gpu_compatibility.Pairing:
    return gpu_compatibility.resolve(model, Gpu(**section), distribution, framework)


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("nvidia-tesla-p100", "pascal"),
        ("Tesla P40", "pascal"),
        ("nvidia-tesla-v100", "volta"),
        ("V100-SXM2-32GB", "volta"),
        ("nvidia-tesla-t4", "turing"),
        ("T4", "turing"),
        ("Quadro RTX 8000", "turing"),
        ("nvidia-a100-80gb", "ampere"),
        ("NVIDIA A100-SXM4-40GB", "ampere"),
        ("a100-1g.5gb", "ampere"),
        ("rtx-a4000", "ampere"),
        ("rtx_a6000", "ampere"),
        ("GeForce RTX 3090", "ampere"),
        ("NVIDIA GeForce RTX 2070 with Max-Q Design", "turing"),
        ("NVIDIA GeForce RTX 3060 Ti", "ampere"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "ampere"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "ada"),
        ("NVIDIA RTX 2000 Ada Generation Laptop GPU", "ada"),
        ("NVIDIA H20", "hopper"),
        ("nvidia-l4", "ada"),
        ("L40S", "ada"),
        ("RTX 6000 Ada Generation", "ada"),
        ("nvidia-h100-80gb", "hopper"),
        ("nvidia-h100-mega-80gb", "hopper"),
        ("nvidia-h200-141gb", "hopper"),
        ("NVIDIA H100 80GB HBM3", "hopper"),
        ("NVIDIA H100 80GB HBM2e", "hopper"),
        ("hopper", "hopper"),
        ("Ada Lovelace", "ada"),
    ],
)
def test_gpu_names_of_clouds_are_known(name: str, architecture: str) -> None:
    assert resolve(name).architecture == architecture


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4080 SUPER", "NVIDIA RTX A1000", "NVIDIA H200"])
def test_gpu_newer_than_the_driver_of_debian_12_is_refused_there(name: str) -> None:
    assert resolve(name, distribution="debian 13").driver == "distro"
    with pytest.raises(PreflightError, match=r"needs driver 550 or newer, debian 12 has 535"):
        resolve(name, driver="distro", distribution="debian 12")


@pytest.mark.parametrize(
    "name", ["NVIDIA GeForce RTX 5070 Ti", "NVIDIA B300 SXM6 AC", "NVIDIA RTX PRO 6000 Blackwell Max-Q"]
)
def test_names_of_blackwell_are_known(name: str) -> None:
    assert resolve(name, framework="pytorch").architecture == "blackwell"


def test_oldest_of_several_gpus_is_found() -> None:
    models = ["NVIDIA H100", "GeForce RTX 3090", "GeForce GTX 1080 Ti", "of another maker"]
    assert gpu_compatibility.oldest(models) == "GeForce GTX 1080 Ti"
    assert gpu_compatibility.oldest(models[:2]) == "GeForce RTX 3090"
    assert gpu_compatibility.oldest(models[3:]) == "of another maker"
    assert gpu_compatibility.oldest([]) is None


def test_cluster_without_gpus_has_the_cpu_image_and_no_driver() -> None:
    assert resolve(None) == gpu_compatibility.Pairing(accelerator="cpu", driver="none")


def test_ignored_gpus_are_not_resolved() -> None:
    assert resolve("nvidia-tesla-k80", driver="none") == resolve(None)


def test_pairing_lists_the_content_of_the_image() -> None:
    pairing = resolve("nvidia-tesla-t4", "debian 12")
    assert (pairing.accelerator, pairing.framework, pairing.horovod) == ("gpu", "tensorflow 2.21.0", "0.28.1")
    assert (pairing.cuda, pairing.least_driver) == ("12.9", "525.60.13")


@pytest.mark.parametrize(
    ("distribution", "driver"),
    [("debian 12", "cuda-repository"), ("ubuntu 24.04", "distro"), (None, "cuda-repository")],
)
def test_pytorch_needs_a_newer_driver(distribution: str, driver: str) -> None:
    pairing = resolve("nvidia-tesla-t4", distribution, "pytorch")
    assert (pairing.accelerator, pairing.framework, pairing.cuda) == ("gpu", "pytorch 2.15.0", "13.2")
    assert (pairing.least_driver, pairing.driver) == ("580", driver)
    assert resolve("h200", distribution, "pytorch").least_driver == "580"


@pytest.mark.parametrize(
    ("name", "framework", "other", "usable"),
    [
        ("nvidia-b200", "tensorflow", "pytorch", "from pascal to hopper"),
        ("RTX 5090", "tensorflow", "pytorch", "from pascal to hopper"),
        ("nvidia-tesla-v100", "pytorch", "tensorflow", "from turing to blackwell"),
        ("nvidia-tesla-p100", "pytorch", "tensorflow", "from turing to blackwell"),
    ],
)
def test_gpu_for_the_other_framework_only_names_it(
    name: str, framework: Framework, other: Framework, usable: str
) -> None:
    with pytest.raises(PreflightError) as caught:
        resolve(name, framework=framework)
    assert f"`framework: {other}`, which supports them" in caught.value.hint
    assert usable in caught.value.hint
    assert resolve(name, framework=other).accelerator == "gpu"


def test_no_gpu_has_an_image_of_both_frameworks() -> None:
    with pytest.raises(PreflightError, match=r"CUDA 12 and PyTorch 2\.15 CUDA 13") as caught:
        resolve("nvidia-tesla-t4", framework="both")
    assert caught.value.hint == (
        "`framework: tensorflow`, which supports them, or `framework: pytorch`, which supports them,"
        " or `gpu.driver: none` to use no GPUs"
    )
    assert resolve("nvidia-tesla-t4", framework="both", driver="none") == resolve(None)


def test_gpu_for_no_framework_names_none() -> None:
    with pytest.raises(PreflightError, match="CUDA 13 dropped it") as caught:
        resolve("Tesla M60", framework="pytorch")
    assert "framework" not in caught.value.hint


def test_driver_of_the_distribution_is_used_if_new_enough() -> None:
    pairing = resolve("nvidia-l4")
    assert pairing.driver == "distro"
    assert tuple(pairing.packages) == ALL
    assert pairing.packages["debian 12"][0] == "nvidia-kernel-dkms"
    assert pairing.packages["ubuntu 24.04"] == ("nvidia-headless-580-server-open", "nvidia-utils-580-server")
    assert pairing.first == {}


def test_gpus_before_turing_get_proprietary_modules() -> None:
    assert resolve("v100", "ubuntu 22.04").packages["ubuntu 22.04"][0] == "nvidia-headless-580-server"
    assert "nvidia-kernel-dkms" in resolve("v100", "debian 12", driver="cuda-repository").packages["debian 12"]


@pytest.mark.parametrize(
    ("distribution", "driver"), [("debian 12", "cuda-repository"), ("debian 13", "distro"), (None, "cuda-repository")]
)
def test_gpu_too_new_for_the_distribution_uses_nvidias_driver(distribution: str | None, driver: str) -> None:
    assert resolve("nvidia-h200-141gb", distribution).driver == driver


def test_nvidias_repository_is_pinned_to_a_branch_for_every_gpu() -> None:
    pairing = resolve("p100", driver="cuda-repository")
    assert tuple(pairing.packages) == tuple(pairing.first) == ("debian 12", "ubuntu 22.04", "ubuntu 24.04")
    assert set(pairing.first.values()) == {("nvidia-driver-pinning-580",)}


def test_driver_in_the_image_needs_no_package() -> None:
    pairing = resolve("a100", driver="image")
    assert (pairing.driver, pairing.packages, pairing.accelerator) == ("image", {}, "gpu")


def test_configured_architecture_overrides_the_clouds_name() -> None:
    assert resolve("gpu-large", architecture="ampere").architecture == "ampere"
    assert resolve("gpu-large", architecture="RTX A5000").gpu == "RTX A5000"


def test_unknown_gpu_requires_its_architecture() -> None:
    with pytest.raises(PreflightError, match="gpu: 'gpu-large' is not in the table") as caught:
        resolve("gpu-large")
    assert caught.value.hint == "set gpu.architecture to one of pascal, volta, turing, ampere, ada, hopper"


def test_unknown_gpu_and_both_frameworks_have_the_reason() -> None:
    with pytest.raises(PreflightError, match=r"gpu: 'gpu-large': TensorFlow .* needs CUDA 12 and PyTorch") as caught:
        resolve("gpu-large", framework="both")
    expected = "set `framework: tensorflow`, or `framework: pytorch`, or `gpu.driver: none` to use no GPUs"
    assert caught.value.hint == expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nvidia-tesla-k80", "kepler.*CUDA 12 dropped it"),
        ("Tesla M60", "maxwell.*TensorFlow 2.21"),
        ("nvidia-b200", "blackwell.*TensorFlow 2.21"),
        ("nvidia-rtx-pro-6000", "blackwell"),
        ("RTX PRO 6000 Blackwell Server Edition", "blackwell"),
        ("blackwell", "blackwell"),
    ],
)
def test_gpus_that_tensorflow_cannot_use_are_refused(name: str, reason: str) -> None:
    with pytest.raises(PreflightError, match=reason) as caught:
        resolve(name)
    assert name in caught.value.message
    assert "from pascal to hopper" in caught.value.hint


def test_too_old_driver_of_the_distribution_is_refused() -> None:
    with pytest.raises(PreflightError, match=r"h200 needs driver 550 or newer, debian 12 has 535") as caught:
        resolve("h200", "debian 12", driver="distro")
    assert caught.value.hint == "`gpu.driver: cuda-repository`, or an image of debian 13, ubuntu 22.04, ubuntu 24.04"


def test_distribution_driver_is_possible_for_unknown_guests() -> None:
    assert tuple(resolve("h200", driver="distro").packages) == ALL[1:]


def test_distribution_without_a_driver_is_refused() -> None:
    with pytest.raises(PreflightError, match="no driver is known for fedora 42") as caught:
        resolve("t4", "fedora 42")
    assert "debian 12" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "driver"),
    [("nvidia-tesla-t4", "vgpu"), ("nvidia-tesla-t4-vws", "auto"), ("grid_a100-10c", "auto"), ("a100-vgpu", "auto")],
)
def test_licensed_gpu_needs_the_users_installer_and_token(name: str, driver: str) -> None:
    with pytest.raises(PreflightError, match=r"needs gpu\.vgpu_installer and gpu\.vgpu_token") as caught:
        resolve(name, driver=driver)
    assert "licensing portal" in caught.value.hint
    with pytest.raises(PreflightError, match=r"needs gpu\.vgpu_token$"):
        resolve(name, driver=driver, vgpu_installer=Path("guest.run"))
    pairing = resolve(name, driver=driver, vgpu_installer=Path("guest.run"), vgpu_token=Path("client.tok"))
    assert (pairing.driver, pairing.packages) == ("vgpu", {})


@pytest.mark.parametrize(
    ("image", "distribution"),
    [
        ("debian-cloud/debian-12", "debian 12"),
        ("Debian 13 (trixie)", "debian 13"),
        ("ubuntu-os-cloud/ubuntu-2204-lts", "ubuntu 22.04"),
        ("noble-server-cloudimg-amd64", "ubuntu 24.04"),
        ("Ubuntu 24.04", "ubuntu 24.04"),
        ("rocky-9", None),
    ],
)
def test_distribution_is_read_from_the_name_of_an_image(image: str, distribution: str | None) -> None:
    assert gpu_compatibility.distribution(image) == distribution


@pytest.mark.parametrize(
    ("framework", "package", "runtime", "suffix"),
    [
        ("tensorflow", "tensorflow", "nvidia-cuda-runtime-cu12", "cu12"),
        ("pytorch", "torch", "nvidia-cuda-runtime", "cu13"),
    ],
)
def test_table_has_package_and_runtime_of_each_image(framework: str, package: str, runtime: str, suffix: str) -> None:
    docker = packaged_files.directory("docker")
    wheels = (docker / f"requirements-{framework}-gpu.txt").read_text()
    holds = choose_driver._table()["images"][framework]
    assert f"\n{package}=={holds['version']} ;" in wheels
    assert f"\n{runtime}=={holds['cuda']}." in wheels
    assert f"\nnvidia-cudnn-{suffix}=={holds['cudnn']}." in wheels
    assert f"\nnvidia-nccl-{suffix}=={holds['nccl']} ;" in wheels
    assert f"horovod=={holds['horovod']}" in (docker / "horovod.txt").read_text()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_row_of_the_table_resolves_or_has_a_reason(framework: Framework) -> None:
    for architecture, about in choose_driver._table()["architectures"].items():
        for model in about["models"]:
            if framework in about.get("refused", {}):
                with pytest.raises(PreflightError, match=architecture):
                    resolve(model, framework=framework)
            else:
                assert resolve(model, framework=framework).architecture == architecture


def test_pairing_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        resolve("t4").driver = "none"  # type: ignore[misc]


@pytest.mark.parametrize(("framework", "section"), [("pytorch", {}), ("tensorflow", {"driver": "cuda-repository"})])
def test_debian_13_is_refused_if_its_own_driver_does_not_do(framework: Framework, section: dict[str, str]) -> None:
    """NVIDIA's repository for Debian 13 lacks the branch that the deploy pins."""
    with pytest.raises(PreflightError, match=r"debian 13 has 550\.163\.01, and NVIDIA's repository lacks") as caught:
        resolve("h100", "debian 13", framework, **section)
    assert "an image of debian 12, ubuntu 22.04, ubuntu 24.04" in caught.value.hint
    assert ("`gpu.driver: distro`" in caught.value.hint) == (framework == "tensorflow")
