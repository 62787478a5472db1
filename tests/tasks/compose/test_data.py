"""Goals, agendas and texts from files, and item words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catena.data.config import WordTokenizerConfig
from catena.data.reading import ReadCounter
from catena.data.tokenize import build_tokenizer
from catena.errors import CheckpointError, ConfigError, DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.base import DataParts, Origin
from catena.tasks.compose.config import ComposeConfig, ComposeDataConfig
from catena.tasks.compose.data import (
    Composition,
    ItemWordModel,
    fit_encoding,
    normalize_word,
    read_compositions,
    split_words,
    to_composition,
)
from catena.tasks.compose.task import ComposeTask
from catena.tasks.neural import NetworkTraining
from catena.tasks.sources import Sources
from tests.tasks.compose.kitchen import kitchen

DATA = ComposeDataConfig()


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path, data: ComposeDataConfig, gold: bool = True) -> list[Composition]:
    return list(read_compositions(data, path, ReadCounter(), gold=gold))


def prepare(config: ComposeConfig) -> NetworkTraining:
    return ComposeTask.prepare(config, Sources(ComposeTask, config), Origin(Randomness(config.seed)))


def bare(example: Composition) -> tuple[str, tuple[str, ...], str]:
    return example.goal, example.items, example.text


class TestReading:
    def test_read_json_lines_with_default_and_given_keys(self, tmp_path: Path) -> None:
        path = written(
            tmp_path / "a.jsonl",
            '{"title": "Tea", "ingredients": ["1 cup water", "tea"], "steps": ["Boil.", "Pour."]}\n',
        )
        found = read(path, DATA)
        assert bare(found[0]) == ("Tea", ("1 cup water", "tea"), "Boil. Pour.")
        assert str(found[0].location) == f"{path}:1"
        path = written(tmp_path / "b.jsonl", '{"x": "Tea", "y": "water | tea ", "z": "Boil."}\n')
        named = ComposeDataConfig(goal_column="x", items_column="y", text_column="z")
        assert bare(read(path, named)[0]) == ("Tea", ("water", "tea"), "Boil.")

    def test_read_tsv_with_and_without_header(self, tmp_path: Path) -> None:
        path = written(tmp_path / "a.tsv", "goal\titems\ttext\nTea\twater | tea\tBoil it.\n\nEmpty\t\tNothing.\n")
        assert [bare(e) for e in read(path, DATA)] == [
            ("Tea", ("water", "tea"), "Boil it."),
            ("Empty", (), "Nothing."),
        ]
        assert [e.goal for e in read(path, DATA, gold=False)] == ["Tea", "", "Empty"], "a blank line is an input"

    def test_read_tables_with_header(self, tmp_path: Path) -> None:
        rows = [",title,ingredients,directions,link"]
        rows.append('0,Tea,"[""1 cup water, hot"", ""tea""]","[""Boil."", ""Pour.""]",x')
        rows.append('1,Soup,"[\'rice\', ""cook\'s salt""]",Cook it.,y')
        rows.append('2,Cake,"flour\n2 eggs, beaten | salt",Bake.,z')
        path = written(tmp_path / "a.csv", "\n".join(rows) + "\n\n")
        found = read(path, DATA)
        assert [bare(e) for e in found] == [
            ("Tea", ("1 cup water, hot", "tea"), "Boil. Pour."),
            ("Soup", ("rice", "cook's salt"), "Cook it."),
            ("Cake", ("flour", "2 eggs, beaten", "salt"), "Bake."),
        ]
        assert [e.location.line for e in found] == [2, 3, 4]
        assert [e.text for e in read(path, DATA, gold=False)] == [""] * 4
        path = written(tmp_path / "b.tsv", "Steps\tid\tItems\tTitle\nBoil.\t7\twater | tea\tTea\n")
        assert [bare(e) for e in read(path, DATA)] == [("Tea", ("water", "tea"), "Boil.")]
        named = ComposeDataConfig(goal_column="dish", items_column="what")
        path = written(tmp_path / "c.csv", "what;dish\nwater|tea;Tea\n")
        assert [bare(e) for e in read(path, named, gold=False)] == [("Tea", ("water", "tea"), "")]

    def test_read_recipes_with_structured_steps(self, tmp_path: Path) -> None:
        steps = '[{"@type": "HowToStep", "text": "Boil."}, "Pour."]'
        thing = f'{{"name": "Tea", "recipeIngredient": ["water"], "recipeInstructions": {steps}}}\n'
        path = written(tmp_path / "a.jsonl", thing)
        assert [bare(e) for e in read(path, DATA)] == [("Tea", ("water",), "Boil. Pour.")]

    def test_inputs_of_a_user(self) -> None:
        for item in ("Tea\twater | tea", ("Tea", ["water", "tea"]), {"title": "Tea", "items": "water\ntea"}):
            assert bare(to_composition(item, DATA)) == ("Tea", ("water", "tea"), "")
        in_python = {"title": "Tea", "items": "['water', \"cook's tea\"]"}
        assert to_composition(in_python, DATA).items == ("water", "cook's tea")
        assert bare(to_composition('{"title": "Tea", "items": []}', DATA)) == ("Tea", (), "")
        assert bare(to_composition(" ", DATA)) == ("", (), "")
        with pytest.raises(FormatError, match="input:1 has 1 tab-separated field"):
            to_composition("Soup", DATA)
        with pytest.raises(FormatError, match=r"The input has none of the keys items, .*data\.items_column"):
            to_composition({"title": "Soup"}, DATA)
        for wrong in (7, ("Soup", "rice"), ("Soup",)):
            with pytest.raises(DataError, match="must be a goal and a list of items"):
                to_composition(wrong, DATA)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("Tea\twater\n", r"a\.x has no column '3'"),
            ('{"title": "Tea", "text": "Boil."}\n', r"a\.x has none of the columns items, .*data\.items_column"),
            ('{"title": "Tea"\n', r"a\.x:1 is not valid JSON"),
            ("title\titems\ttext\nTea\twater\tBoil.\tx\n", r"a\.x:2 is a record with 4 fields instead of 3"),
        ],
    )
    def test_read_invalid_line_raises_with_location(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(FormatError, match=said):
            read(written(tmp_path / "a.x", text), DATA)

    def test_a_damaged_line_is_dropped_and_counted(self, tmp_path: Path) -> None:
        path, counter = written(tmp_path / "a.x", '{"title": "a", "items": [], "text": "b"}\n[1]\n'), ReadCounter()
        assert [e.goal for e in read_compositions(DATA, path, counter)] == ["a"]
        assert counter.counts(1).dropped == {"without a complete JSON object": 1}

    def test_read_csv_without_header_raises(self, tmp_path: Path) -> None:
        path = written(tmp_path / "a.csv", "Tea,water,Boil.\nSoup,rice,Cook.\n")
        with pytest.raises(FormatError, match=r"a\.csv has 3 columns without names"):
            read(path, DATA)
        with pytest.raises(FormatError, match=r"b\.csv is empty"):
            read(written(tmp_path / "b.csv", ""), DATA)

    def test_items_in_one_string_are_reported(self, tmp_path: Path) -> None:
        lines = "".join(f'{{"title": "T{i}", "items": "water, tea", "text": "Boil {i}."}}\n' for i in range(9))
        config = ComposeConfig.model_validate({"data": {"train": [str(written(tmp_path / "a.jsonl", lines))]}})
        assert any("every text has one item, such as 'water, tea'" in line for line in prepare(config).data.lines)
        path = written(tmp_path / "b.jsonl", lines.replace(", tea", " | tea"))
        config = ComposeConfig.model_validate({"data": {"train": [str(path)]}})
        assert not any("one item" in line for line in prepare(config).data.lines)

    def test_read_missing_key_raises(self, tmp_path: Path) -> None:
        path = written(tmp_path / "a.jsonl", '{"title": "Tea", "items": [], "text": "b"}\n')
        with pytest.raises(FormatError, match="has no column 'dish': known are 'items', 'text', 'title'"):
            read(path, ComposeDataConfig(goal_column="dish"))


class TestNaming:
    def test_normalize_word_removes_plurals(self) -> None:
        for one, many in [("tomato", "Tomatoes"), ("berry", "berries"), ("olive", "olives"), ("egg", "eggs")]:
            assert normalize_word(one) == normalize_word(many)
        assert normalize_word("glass") == "glass"
        assert normalize_word("rice") != normalize_word("rye")

    def test_item_words_are_learned(self) -> None:
        examples = [
            ([["cups", "flour"], ["large", "eggs"]], ["mix", "flour", "in", "a", "large", "bowl", "with", "an", "egg"]),
            ([["cups", "sugar"]], ["melt", "sugar", "in", "a", "large", "pan"]),
            ([["cups", "rice"], ["large", "egg"]], ["boil", "rice", "in", "a", "large", "pot", "and", "add", "eggs"]),
            ([["flour"]], ["sift", "flour", "into", "a", "large", "bowl"]),
        ]
        naming = ItemWordModel.learn(examples)
        assert naming.item_words == {"flour", "egg", "sugar", normalize_word("rice")}
        assert naming.probabilities["cup"] == pytest.approx(0.5 / 4)
        assert naming.names(["cups", "flour"]) == ["flour"]
        assert naming.names(["cups", "saffron"]) == ["saffron"]
        assert naming.names(["large", "cups"]) == ["large"]
        assert naming.names([]) == []
        listed = [["cups", "flour"], ["large", "eggs"]]
        assert naming.mentioned(listed, ["add", "one", "egg"]) == [False, True]
        assert naming.extra(listed, ["flour", "with", "sugar", "and", "rice"], ["Rice"]) == {"sugar"}

    def test_item_words_round_trip(self, tmp_path: Path) -> None:
        naming = ItemWordModel({"egg": 0.75, "cup": 0.1}, frozenset({"egg"}))
        naming.save(tmp_path)
        assert ItemWordModel.load(tmp_path) == naming
        (tmp_path / "names.json").write_text("{}", encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"names\.json is damaged"):
            ItemWordModel.load(tmp_path)

    def test_split_words_keeps_words_with_letters(self) -> None:
        assert split_words("2 (8 ounce) cups, Flour!", build_tokenizer(WordTokenizerConfig(lowercase=True))) == [
            "ounce",
            "cups",
            "flour",
        ]


class TestDataset:
    def config(self, path: Path, **data: object) -> ComposeConfig:
        return ComposeConfig.model_validate({"data": {"train": [str(path)], **data}})

    def split(self, config: ComposeConfig) -> DataParts[Composition]:
        return Sources(ComposeTask, config).split()

    def test_splits_do_not_depend_on_the_seed_and_have_distinct_goals(self, tmp_path: Path) -> None:
        path = kitchen(tmp_path / "k.jsonl", 120)
        config = self.config(path, dev_fraction=0.2, test_fraction=0.1)
        one, two = self.split(config), self.split(config.model_copy(update={"seed": 5}))
        assert one == two
        assert [len(part) for part in (one.train, one.dev, one.test)] == [84, 24, 12]
        goals = [{example.goal.lower() for example in part} for part in (one.train, one.dev, one.test)]
        assert sum(map(len, goals)) == len(set().union(*goals))

    def test_equal_goals_are_in_one_split(self, tmp_path: Path) -> None:
        lines = [f"{'tea' if i % 2 else 'TEA'} {i % 20}\twater\tboil number {i}\n" for i in range(80)]
        parts = self.split(self.config(written(tmp_path / "a.tsv", "".join(lines)), dev_fraction=0.3))
        train, dev = ({example.goal.lower() for example in part} for part in (parts.train, parts.dev))
        assert dev
        assert not train & dev

    def test_source_has_item_words_or_all_words(self, tmp_path: Path) -> None:
        path = kitchen(tmp_path / "k.jsonl", 80)
        example = Composition("Rice Soup", ("3 large eggs, cut into cubes", "2 cups rice"))
        encoding = fit_encoding(self.config(path), read(path, DATA))
        assert encoding.read_words(example) == [["eggs"], ["rice"]]
        ids = encoding.source(example)
        assert encoding.vocabulary.tokens(ids) == ["rice", "soup", "<item>", "eggs", "<item>", "rice"]
        everything = fit_encoding(self.config(path, item_words="all"), read(path, DATA))
        assert everything.read_words(example)[1] == ["cups", "rice"]
        names = encoding.names()
        assert names[encoding.vocabulary.ids(["eggs"])[0]] >= 0
        assert names[encoding.item] == names[1] == names[encoding.vocabulary.ids(["."])[0]] == -1

    def test_unusable_examples_are_counted(self, tmp_path: Path) -> None:
        lines = ["a\tb\tc d", "a\tb\t", "\t\tc", "g\th\t" + "long " * 9, "i\tj\tk"]
        path = written(tmp_path / "a.tsv", "\n".join(lines) + "\n")
        dev = str(written(tmp_path / "dev.tsv", "e\tf\tg\n"))
        dropped = prepare(self.config(path, dev=dev, max_length=6)).data.lines
        counts = "read 6; used 3; dropped 3 (1 empty, 1 longer than max_length=6, 1 without a goal and items)"
        assert any(line.startswith(counts) for line in dropped)
        cut = prepare(self.config(path, dev=dev, max_length=6, too_long="cut"))
        rows = cut.data.train
        assert len(rows) == 3
        batch = cut.task.collate(rows, np.arange(3))
        assert rows.lengths.tolist() == batch.lengths.tolist()
        assert max(rows.lengths) == 7
        assert batch.targets[int(rows.lengths.argmax()), 6] == cut.task.encoding.end

    def test_files_without_texts_raise(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"train can be used: read 1; used 0; dropped 1 \(1 empty\)"):
            prepare(self.config(written(tmp_path / "a.tsv", "a\tb\t\n")))
        path = written(tmp_path / "b.tsv", "a\tb\tc d e f\n")
        with pytest.raises(DataError, match="train can be used: read 2; used 1; dropped 1"):
            prepare(self.config(path, dev=str(path), max_length=2))
        with pytest.raises(DataError, match="There is nothing to train on"):
            prepare(ComposeConfig())


class TestSettings:
    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"data": {"dev_fraction": 0.5, "test_fraction": 0.5}}, "must be less than 1, got 0.5"),
            ({"data": {"folds": 3}}, "folds"),
            ({"training": {"metric": "accuracy"}}, "Unknown training.metric"),
            ({"training": {"metric": "bleu"}, "evaluation": {"texts": 0}}, "evaluation.texts must be positive"),
            ({"training": {"metric": "extra"}}, "must not be 'extra'"),
            ({"model": {"kind": "attention", "attention": "none"}}, "Set model.kind to 'plain'"),
        ],
    )
    def test_config_with_inconsistent_options_raises(self, values: dict[str, object], said: str) -> None:
        with pytest.raises((ConfigError, ValueError), match=said):
            ComposeConfig.model_validate(values)
