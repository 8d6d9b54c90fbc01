"""MetaQA: one question per line, a tab, and the answers separated by vertical bars. The question has its topic in brackets."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mhgrn.errors import UserError
from mhgrn.questions.reader import NumberedRow, QuestionReader, is_utf8, lines_of


class MetaQAReader(QuestionReader):
    name = "metaqa"
    endings = ()

    def rows(self, file: BinaryIO, path: Path) -> Iterator[NumberedRow]:
        for number, line in enumerate(lines_of(file, path, "\n"), start=1):
            text = line.rstrip("\r\n")
            question, tab, answers = text.partition("\t")
            if not text.strip():
                continue
            if not is_utf8(text):
                yield number, UserError("not UTF-8 text.")
            elif not tab:
                yield number, UserError("no tab between question and answers.")
            else:
                yield number, {"question": question, "answers": [part for part in answers.split(self.delimiter or "|") if part]}
