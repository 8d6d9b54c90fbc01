"""Every shipped settings file loads, and has the settings and numbers of the paper."""

import re
from importlib import resources
from pathlib import Path

import pytest

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn_reproduction.papers import Experiment, TextSettings
from mhgrn_reproduction.titles import TRAINED

SETTINGS = Path(str(resources.files("mhgrn_reproduction"))) / "settings"


def test_there_is_one_file_for_each_experiment() -> None:
    assert {path.stem for path in SETTINGS.glob("*.yaml")} == set(TRAINED)
    assert TextSettings.shipped() == [
        "bert-base",
        "bert-large",
        "minilm",
        "minilm-knowledge",
        "minilm-knowledge-short",
        "minilm-knowledge-trained",
        "minilm-knowledge-without",
        "minilm-tuned",
        "roberta-large",
    ]


@pytest.mark.parametrize("encoder", TextSettings.shipped())
@pytest.mark.parametrize("name", TRAINED)
def test_every_system_has_valid_settings_with_every_text_encoder(name: str, encoder: str) -> None:
    experiment, text = Experiment.named(name), TextSettings.named(encoder)
    for system in experiment.systems:
        config = experiment.config(system, encoder, text, seed=3)
        assert isinstance(config, Config)
        assert config.seed == 3
        assert config.graph_encoder == experiment.systems[system].settings.get(
            "graph_encoder", experiment.settings.get("graph_encoder")
        )
    if experiment.reference is not None:
        assert experiment.reference in experiment.systems
    assert set(experiment.ensembles) <= set(experiment.systems)


@pytest.mark.parametrize("encoder", TextSettings.shipped())
def test_every_setting_of_a_text_encoder_says_where_it_is_from(encoder: str) -> None:
    lines = (SETTINGS / "encoders" / f"{encoder}.yaml").read_text(encoding="utf-8").splitlines()
    previous = ""
    for line in lines:
        if re.match(r"\s*[\w.]+: \S", line) and not line.startswith("label:") and "text.encoder: minilm" not in line:
            assert "#" in line or previous.lstrip().startswith("#"), line
        previous = line


def test_learning_rates_are_those_of_tables_9_and_10() -> None:
    csqa, obqa = Experiment.named("csqa-inhouse"), Experiment.named("obqa")
    for encoder, rate in (("bert-base", 3e-5), ("bert-large", 2e-5), ("roberta-large", 1e-5)):
        text = TextSettings.named(encoder)
        assert csqa.config("mhgrn", encoder, text).text.learning_rate == rate
        assert csqa.config("none", encoder, text).training.learning_rate == rate
    text = TextSettings.named("roberta-large")
    for system, rates in {"rn": (3e-4, 3e-4), "rgcn": (1e-3, 1e-3), "gconattn": (3e-4, 1e-4), "mhgrn": (1e-3, 1e-3)}.items():
        found = tuple(e.config(system, "roberta-large", text).training.learning_rate for e in (csqa, obqa))
        assert found == rates, system


def test_the_published_recipe_follows_the_appendix() -> None:
    text = TextSettings.named("roberta-large")
    csqa, obqa = Experiment.named("csqa-inhouse"), Experiment.named("obqa")
    config = csqa.config("mhgrn", "roberta-large", text)
    assert (config.text.max_length, config.training.batch_size, config.mhgrn.layers, config.mhgrn.hops) == (64, 32, 1, 3)
    assert csqa.config("mhgrn", "bert-base", TextSettings.named("bert-base")).mhgrn.hops == 2
    config = obqa.config("mhgrn-retrieved", "roberta-large", text)
    assert (config.text.max_length, config.training.batch_size, config.mhgrn.hops) == (256, 16, 3)
    # the encoder of MHGRN is frozen for three epochs, that of the others is not
    frozen = {name: csqa.config(name, "roberta-large", text).text.frozen_epochs for name in ("mhgrn", "none", "rgcn", "rn")}
    assert frozen == {"mhgrn": 3, "none": 0, "rgcn": 0, "rn": 0}


def test_ablations_are_the_rows_of_table_6() -> None:
    experiment = Experiment.named("ablation")
    text = TextSettings.named("roberta-large")
    configs = {name: experiment.config(name, "roberta-large", text).mhgrn for name in experiment.systems}
    ablations = [[], ["typed_transform"], ["attention"], ["relation_attention"], ["type_attention"]]
    for counting in (False, True):
        rows = [config for config in configs.values() if config.counting == counting][:5]
        assert [row.without for row in rows] == ablations
        assert {row.hops for row in rows} == {3}
    assert {name for name, system in experiment.systems.items() if system.optional} == {n for n, c in configs.items() if c.counting}


def test_what_varies_takes_all_its_values() -> None:
    hops = Experiment.named("hops")
    text = TextSettings.named("minilm")
    assert [hops.config(name, "minilm", text).mhgrn.hops for name in hops.systems] == [1, 2, 3, 4, 5]
    rates = Experiment.named("learning-rates")
    grid = [rates.config(name, "minilm", text) for name in rates.pick(["none"])]
    assert [config.text.learning_rate for config in grid] == [1e-5, 2e-5, 3e-5, 6e-5, 1e-4]
    assert [config.training.learning_rate for config in grid] == [1e-5, 2e-5, 3e-5, 6e-5, 1e-4]
    assert [s.value for s in rates.pick(["rn"]).values()] == [1e-4, 3e-4, 1e-3, 3e-3]


@pytest.mark.parametrize("name", TRAINED)
def test_the_papers_numbers_are_in_the_paper(name: str, shared_data: Path) -> None:
    paper = shared_data.parent / "paper.tex"
    if not paper.is_file():
        pytest.skip(f"the paper is not at {paper}")
    text = paper.read_text(encoding="utf-8")
    experiment = Experiment.named(name)
    rows = [system.paper for system in experiment.systems.values()] + [row.paper for row in experiment.quoted]
    for numbers in rows:
        for mean, std in (found for of in numbers.values() for found in of.values()):
            assert f"{mean:.2f}" in text or f"{mean:.1f}" in text, mean
            assert std is None or f"pm${std:.2f}" in text, (mean, std)


def test_own_files_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("data: questions\nsystems: {a: {label: A, settings: {mhgrn.hops: 3}}}\n", encoding="utf-8")
    assert Experiment.named(str(path)).name == "mine"
    for content, message in {
        "data: x\nsystem: {}\nsystems: {a: {label: A}}\n": "unknown key system. Did you mean systems?",
        "data: x\nsystems: {a: {label: A, settings: {mhgrn: {hops: 3}}}}\n": "write mhgrn.SETTING: VALUE on one line",
        "data: x\nsystems: {}\n": "systems",
        "systems: {a: {label: A}}\n": "data",
    }.items():
        path.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=re.escape(message)):
            Experiment.named(str(path))
    with pytest.raises(UserError, match=r"no system 'mhgnr'\. Did you mean mhgrn"):
        Experiment.named("csqa-inhouse").pick(["mhgnr"])
    with pytest.raises(UserError, match="Did you mean bert-base"):
        TextSettings.named("bert-bsae")
