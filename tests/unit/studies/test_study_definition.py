"""Study files: valid content, messages for mistakes, and the effect of `shrink`."""

from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.studies import study_files
from orchestrator.studies.study_definition import OPTIONS
from tests.unit.studies.studies import cells, study

MINIMAL = "name: tiny\nmodels: lenet\ndatasets: mnist\nranks: 1\n"
WRONG = [
    ("", "expected keys and values, found None"),
    ("- 1", "expected keys and values"),
    ("name: [", "not YAML"),
    (MINIMAL + "engine: ours", "engine: unknown key, did you mean engines?"),
    (MINIMAL + "nodes: 2", "study.yaml: ranks, nodes: both are given, give one"),
    (MINIMAL.replace("ranks: 1", ""), "study.yaml: ranks, nodes: neither is given, give one"),
    (MINIMAL.replace("ranks: 1", "ranks: [1, 100000]"), "ranks.1: 100000: must be less than or equal to 6400"),
    (MINIMAL + "shrink: {ranks: 6401}", "shrink.ranks.0: 6401: must be less than or equal to 6400"),
    (MINIMAL.replace("ranks: 1", "nodes: [1, 500000]"), "nodes.1: 500000: must be less than or equal to 100"),
    (MINIMAL + "options: {batch_size: 8}", "study.yaml: options.batch_size: no option, use the study's key batch"),
    (MINIMAL + "options: {steps: 8}", "options.steps: no option, use the study's key until.steps"),
    (MINIMAL + "exclude: [{ranks: '1'}]", "exclude: ranks: '1': no cell has it, expected one of [1]"),
    (MINIMAL + "base: {ranks: 7}", "base: ranks: 7: no cell has it, expected one of [1]"),
    (MINIMAL + "base: {batch: 8}", "base: batch: 8: no cell has it, the study has no batch"),
    (MINIMAL + "data: {foo: /tmp}", "data: 'foo': no cell has this data set, expected one of ['mnist']"),
    (MINIMAL.replace("name: tiny\n", ""), "study.yaml: name: Field required"),
    (MINIMAL.replace("ranks: 1", "ranks: 0"), "ranks.0: 0: must be greater than or equal to 1"),
    (MINIMAL.replace("lenet", "[]"), "models"),
    (MINIMAL.replace("ranks: 1", "ranks: [true, 2]"), "ranks.0: True: must be a valid integer"),
    (MINIMAL + "until: {time: 99999999999999h}", "must be less than or equal to 30000000"),
    (MINIMAL + "options: {save_model: true}", "options.save_model: no option: studies do not support it, leave it out"),
    (
        MINIMAL + "published: [{cell: {ranks: 1}, metric: seconds, value: -5, source: x}]",
        "published.0.value: -5: must be greater than or equal to 0",
    ),
    (
        MINIMAL + "published: [{cell: {ranks: 1}, metric: seconds, value: .nan, source: x}]",
        "published.0.value: nan: must be a finite number",
    ),
    (
        MINIMAL + "published: [{cell: {ranks: .inf}, metric: seconds, value: 1, source: x}]",
        "study.yaml: published.0.cell.ranks: inf: must be a finite number",
    ),
    (MINIMAL + "options: {momentum: [0.9, .nan]}", "study.yaml: options.momentum.1: nan: must be a finite number"),
    (MINIMAL + "options: {precisions: float32}", "options.precisions: unknown, did you mean precision?"),
    (MINIMAL + "options: {np: 2}", "options.np: no option, use the study's key ranks"),
    (MINIMAL + "exclude: [{rank: 1}]", "exclude: 'rank': no key of a cell, did you mean ranks?"),
    (MINIMAL + "base: {precision: float32}", "base: 'precision': no key of a cell"),
    (MINIMAL + "repetitions: {at_least: 7, at_most: 6}", "at_least: 7 is more than at_most: 6"),
    (MINIMAL + "repetitions: {width: 0.1, at_least: 3}", "an interval of 95 % needs 6 launches"),
    (MINIMAL + "until: {top1: 75}", "until.top1: 75: must be less than 1"),
    (
        MINIMAL + "published: [{cell: {ranks: 1}, metric: seconds, value: 1, source: x, columns: y}]",
        "'columns': unknown key",
    ),
    (MINIMAL + "published: [{cell: {gpus: 1}, metric: seconds, value: 1, source: x}]", "published: 'gpus': no key"),
    (MINIMAL + "shrink: {nodes: 2}", "shrink.nodes: the study has no nodes"),
    (MINIMAL + "shrink: {test_samples: 0}", "shrink.test_samples: 0: must be greater than or equal to 1"),
    (
        MINIMAL + "options: {test_samples: [8, 64]}\nshrink: {test_samples: 8}",
        "shrink.test_samples: the study compares values of it under options: leave one out",
    ),
    (
        MINIMAL + "options: {image_size: [32, 64]}\nshrink: {image_size: 32}",
        "shrink.image_size: the study compares values of it under options: leave one out",
    ),
    (MINIMAL.replace("ranks: 1", f"ranks: {list(range(1, 1002))}"), "at most 1,000"),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_wrong_study_file_is_refused_with_file_key_and_remedy(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        study_files.read(path)
    assert str(path) in caught.value.message
    assert reason in caught.value.message
    assert "orchestrator study init" in caught.value.hint


def test_unknown_name_is_refused_with_the_nearest_packaged_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean dey-2022\?"):
        study_files.find("dey-2021")


def test_single_value_needs_no_list() -> None:
    assert study(batch=32, options={"precision": "float32"}).options == {"precision": ["float32"]}


def test_number_of_repetitions_is_fixed() -> None:
    repetitions = study(repetitions=4).repetitions
    assert (repetitions.width, repetitions.at_least, repetitions.at_most) == (None, 4, 4)


def test_options_are_keys_without_a_key_of_the_study() -> None:
    assert {"precision", "backward_passes_per_step", "cycle_time", "augment", "seed"} <= set(OPTIONS)
    assert not {"model", "np", "steps", "engine", "launcher"} & set(OPTIONS)


def test_part_of_a_cell_may_have_a_value_of_the_shrunk_study() -> None:
    shrink = {"ranks": [1], "datasets": {"mnist": "synthetic"}}
    study(ranks=[8], shrink=shrink, base={"ranks": 1}, exclude=[{"dataset": "synthetic", "ranks": 8}])


def test_missing_key_is_named_without_the_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(MINIMAL.replace("name: tiny\n", ""))
    with pytest.raises(ConfigError) as caught:
        study_files.read(path)
    assert caught.value.problems == [f"{path}: name: Field required"]


def test_shrink_applies_only_to_shrunk_studies() -> None:
    small = {"ranks": 2, "until": {"steps": 5}, "repetitions": 2, "datasets": {"imagenet": "synthetic"}}
    whole = study(ranks=[8, 16], datasets=["imagenet", "synthetic"], shrink=small)
    assert whole.measured() == whole
    shrunk = whole.model_copy(update={"shrunk": True}).measured()
    assert (shrunk.ranks, shrunk.until.steps, shrunk.repetitions.at_most) == ([2], 5, 2)
    assert shrunk.datasets == ["synthetic"]
    assert len(cells(shrunk)) == 1


def test_example_has_every_key() -> None:
    example = study_files.read(study_files.EXAMPLE)
    assert set(type(example).model_fields) - example.model_fields_set == {"nodes"}


def test_excluded_data_set_stays_excluded_if_another_stands_for_it() -> None:
    excluded = [{"model": "lenet", "dataset": "imagenet"}]
    changes = {"models": ["lenet", "resnet50"], "exclude": excluded, "shrink": {"datasets": {"imagenet": "synthetic"}}}
    small = study(datasets=["imagenet", "mnist"], shrunk=True, **changes).measured()
    assert {cell.dataset for cell in cells(small) if cell.model == "lenet"} == {"mnist"}


def test_data_set_that_stands_for_two_is_excluded_by_its_own_name_alone() -> None:
    changes = {"exclude": [{"dataset": "imagenet"}], "shrink": {"datasets": {"imagenet": "synthetic"}}}
    small = study(datasets=["imagenet", "synthetic"], shrunk=True, **changes).measured()
    assert {cell.dataset for cell in cells(small)} == {"synthetic"}


def test_base_follows_a_data_set_to_the_one_that_stands_for_it() -> None:
    changes = {"base": {"dataset": "imagenet"}, "shrink": {"datasets": {"imagenet": "synthetic"}}}
    assert study(datasets=["imagenet", "mnist"], shrunk=True, **changes).measured().base == {"dataset": "synthetic"}
