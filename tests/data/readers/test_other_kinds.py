"""Files that are neither data of a task nor plain text: each is named, with a cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.detect import detect_format

TEXTS = [f"a film with {thing} and {other}, which was good" for thing in ("songs", "tears", "horses")
         for other in ("rain", "snow", "dust")]  # fmt: skip


def blocks(form: str) -> str:
    return "".join(form.format(i=i, text=text, label="xy"[i % 2]) for i, text in enumerate(TEXTS))


OTHERS = {
    "settings.toml": ('[a]\nx = "y"\n', "settings"),
    "a.tex": ("\\section{x}\nhello there\n", "LaTeX"),
    "b.txt": ("\\documentclass{article}\n\\begin{document}\n" + "\n".join(TEXTS), "LaTeX"),
    "c.txt": (blocks("@article{{k{i},\n  title = {{{text}}},\n}}\n"), "BibTeX"),
    "d.txt": (blocks("{i}\n00:00:0{i},000 --> 00:00:0{i},900\n{text}\n\n"), "subtitles"),
    "e.txt": ("From a@b.org Mon Mar  4 10:00:00 2024\nFrom: a@b.org\nTo: c@d.org\nSubject: hi\n\nhello\n", "mail"),
    "f.txt": ("@relation r\n@attribute text string\n@data\n" + blocks("'{text}',{label}\n"), "ARFF"),
    "g.txt": ("\\data\\\nngram 1=2\n\n\\1-grams:\n-1.0\ta\n-1.0\tb\n\n\\end\\\n", "ARPA"),
    "h.txt": ("T1\tPerson 0 5\tAda R\nR1\tKnows Arg1:T1 Arg2:T2\n#1\tNote T1\tcheck\n", "brat"),
    "i.txt": (blocks("-[ RECORD {i} ]------\ntext  | {text}\nlabel | {label}\n"), "database"),
    "j.txt": (blocks("*************************** {i}. row ***************************\n text: {text}\n"), "database"),
    "k.txt": (blocks("{i} |t {text}\n"), "Vowpal Wabbit"),
    "l.txt": ("  text   label\n" + blocks("{i}   {text}   {label}\n"), "data frame"),
    "m.txt": ("The|DT|O dog|NN|O ran|VBD|O .|.|O\nA|DT|O cat|NN|O sat|VBD|O .|.|O\n", "word|TAG"),
    "n.txt": ("recieve->receive\nteh->the\nadress->address\n", "arrow"),
    "o.txt": ("[S [NP [DT the] [NN dog]] [VP [VBD ran]]]\n" * 3, "square brackets"),
    "p.txt": (blocks("product: {i}\nreview: {text}\nscore: {i}\n\n"), "'product:' and 'review:'"),
    "q.txt": (blocks('<doc id="{i}">\n{text}\n</doc>\n'), "XML"),
    "r.txt": ("<docs>\n" + blocks("<text>{text}</text>\n") + "</docs>\n", "XML"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_kind_is_named_with_a_cure(name: str, tmp_path: Path) -> None:
    content, kind = OTHERS[name]
    path = tmp_path / name
    path.write_text(content)
    found = detect_format(path)
    assert (found.format, found.task) == ("unknown", None)
    assert kind in found.why
    assert found.why.startswith(str(path))
    assert found.why.endswith("pass --input-format text to read each of its lines as a text.")


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(TEXTS),
        "<unk> the dog ran\nthe <unk> sat\n" * 5,
        "<s> the dog ran </s>\n<s> a cat sat </s>\n" * 5,
        "From me to you with love\nDate of the day: today\n" * 5,
        "He said: hello there\nShe did not answer -> at all, and went\nAll was quiet\n" * 5,
        "1. first do this\n2. then do that\n\n1. first this\n2. then that\n",
        "[applause] he came in\n[laughter] she went out\n" * 4,
        "Time: noon\n\nPlace: here\n\nPerson: me\n\n",
    ],
)
def test_text_stays_text(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(content)
    assert detect_format(path).format in ("text", "dialogue")


@pytest.mark.parametrize(
    "lines",
    [
        ["00:00:01,000 --> 00:00:02,000 is how players write times", "a film with songs", "a film with rain"],
        ["From: the first line of a poem about mail", "To: the second one"],
    ],
)
def test_one_line_like_another_kind_is_text(lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    why = detect_format(path).why
    assert "subtitles" not in why
    assert "mail" not in why
