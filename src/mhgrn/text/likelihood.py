"""Likelihoods of choices under a causal language model."""

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import accumulate, groupby
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mhgrn.errors import UserError
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.progress import say, track
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import Subgraph
from mhgrn.text.evidence import evidence_text
from mhgrn.text.gguf import find_gguf
from mhgrn.text.hugging_face import is_causal, load_pretrained
from mhgrn.text.loading import TEXT_ENCODERS
from mhgrn.text.settings import QUESTION, LikelihoodSettings
from mhgrn.text.tokenizer import SharedTokenizer

BATCH = 32  # choices that are scored at once
PROMPTS = 16  # prompts that are read at once
SAVED = 512  # questions between two writes of a cache
SHARED = 256  # questions whose prompts may be read together
SHOWN = 8  # questions that are scored without showing progress


class LogLikelihood(NamedTuple):
    """Of a choice after a prompt."""

    total: float  # log p(choice | prompt)
    tokens: int  # of the choice


class _FlatHead(torch.nn.Module):
    """The layer of the logits, with one dimension for all tokens: for some inputs of three dimensions, torch copies the weights."""

    def __init__(self, head: torch.nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self.head(states.flatten(0, -2))
        return logits.view(*states.shape[:-1], -1)


class CausalModel:
    """A causal language model that gives likelihoods of texts.

    Args:
        where: A text encoder that is a causal language model, a folder, a GGUF file, or a hub name.
        allow_download: Download a hub model that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load ``.bin`` weights if there are no safetensors. Pickle files can run code.
        max_length: The longest input in tokens. The beginning of a longer prompt is cut off.
        precision: In which the model computes: ``float32`` or ``bfloat16``.

    >>> CausalModel("smollm2").log_likelihoods("Paris is the capital of", ["France", "Spain"])  # doctest: +SKIP
    [LogLikelihood(total=-2.671, tokens=1), LogLikelihood(total=-3.752, tokens=1)]
    """

    def __init__(
        self,
        where: str | Path,
        allow_download: bool = False,
        allow_pickle: bool = False,
        max_length: int = 256,
        precision: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        self.name, self.max_length = str(where), max_length
        pretrained = load_pretrained(_place(self.name), self.name, allow_download, allow_pickle, scores_tokens=True)
        self.tokenizer, self.model, self._config = SharedTokenizer(pretrained.tokenizer), pretrained.model, pretrained.config
        self.model.eval().requires_grad_(False)
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if positions is not None and max_length > positions:
            raise UserError(f"likelihood.max_length={max_length}: {self.name} reads at most {positions} tokens.")
        self._fingerprint = self._fingerprint_weights()  # before they are converted
        self.model.to(getattr(torch, precision))
        if (head := self.model.get_output_embeddings()) is not None:
            self.model.set_output_embeddings(_FlatHead(head))
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(self.model.forward).parameters else {}

    def weights_fingerprint(self) -> str:
        """A fingerprint of the settings and of a part of the weights of the model."""
        return self._fingerprint

    def _fingerprint_weights(self) -> str:
        digest = hashlib.sha256(json.dumps(self._config, sort_keys=True, default=str).encode())
        for name, parameter in sorted(self.model.named_parameters()):
            digest.update(name.encode())
            digest.update(parameter.flatten()[:64].float().cpu().numpy().tobytes())
        return digest.hexdigest()[:20]

    def log_likelihoods(self, prompt: str, choices: Sequence[str]) -> list[LogLikelihood]:
        """log p(choice | prompt) of several choices; a space separates prompt and choice. The prompt is read once."""
        return self.log_likelihoods_of([(prompt, choices)])[0]

    def log_likelihoods_of(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[list[LogLikelihood]]:
        """:meth:`log_likelihoods` of several prompts. Prompts with the same number of tokens are read together."""
        tokens = [self._tokens(prompt, choices) for prompt, choices in asked]
        order = sorted(range(len(asked)), key=lambda i: len(tokens[i][0]))
        found: list[list[LogLikelihood]] = [[] for _ in asked]
        with torch.inference_mode():
            for _, group in groupby(order, key=lambda i: len(tokens[i][0])):
                same = list(group)
                for start in range(0, len(same), PROMPTS):
                    part = same[start : start + PROMPTS]
                    for i, totals in zip(part, self._totals([tokens[i] for i in part]), strict=True):
                        lengths = map(len, tokens[i][1])
                        found[i] = [LogLikelihood(total, length) for total, length in zip(totals, lengths, strict=True)]
        return found

    def _tokens(self, prompt: str, choices: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        """The tokens of a prompt and of the choices after it."""
        before = self._without_end(self.tokenizer(prompt)["input_ids"])
        ids = [self._continuation(prompt, before, choice)[: self.max_length // 2] for choice in choices]
        if not before:  # the model needs a token to predict the next one
            token = self.tokenizer
            before = [token.eos_token_id if token.bos_token_id is None else token.bos_token_id]
        room = self.max_length - max(map(len, ids), default=0)
        if len(before) > room:
            first = before[:1] if before[0] in self.tokenizer.all_special_ids else []
            before = first + before[len(first) - room :]
        return before, ids

    def _continuation(self, prompt: str, before: list[int], choice: str) -> list[int]:
        """The tokens of a choice after a prompt."""
        whole = self._without_end(self.tokenizer(f"{prompt} {choice}" if prompt else choice)["input_ids"])
        if len(whole) > len(before) and whole[: len(before)] == before:
            return whole[len(before) :]
        alone: list[int] = self.tokenizer(f" {choice}", add_special_tokens=False)["input_ids"]  # a token spans the boundary
        return alone

    def _without_end(self, ids: list[int]) -> list[int]:
        return ids[:-1] if ids and ids[-1] == self.tokenizer.eos_token_id else ids

    def _totals(self, asked: Sequence[tuple[list[int], list[list[int]]]]) -> list[list[float]]:
        """Σ log p of the tokens of each choice after the tokens of its prompt. All prompts have the same number of tokens."""
        prompts = torch.tensor([before for before, _ in asked], device=self.model.device)  # [prompts, tokens]
        out = self.model(input_ids=prompts, use_cache=True, **self._last_only)
        first = torch.log_softmax(out.logits[:, -1].float(), 1)  # [prompts, vocabulary]
        totals = [[float(log_p[ids[0]]) for ids in choices] for log_p, (_, choices) in zip(first, asked, strict=True)]
        longer = [(len(ids), row, i) for row, (_, choices) in enumerate(asked) for i, ids in enumerate(choices) if len(ids) > 1]
        longer.sort()  # choices of similar length need little padding
        cache = getattr(out, "past_key_values", None)
        for start in range(0, len(longer), BATCH):
            part = longer[start : start + BATCH]
            rows = torch.tensor([row for _, row, _ in part], device=prompts.device)
            choices = [torch.tensor(asked[row][1][i], device=prompts.device) for _, row, i in part]
            shared = deepcopy(cache) if start + BATCH < len(longer) else cache
            for (_, row, i), rest in zip(part, self._rest(prompts[rows], choices, rows, shared), strict=True):
                totals[row][i] += rest
        return totals

    def _rest(self, prompts: Tensor, choices: list[Tensor], rows: Tensor, cache: Any) -> list[float]:
        """Σ log p of all tokens of each choice but the first, with the states of the prompts if they can be shared.

        Args:
            prompts: The prompt of each choice, [choices, tokens].
            choices: The tokens of each choice.
            rows: The place of each choice's prompt in the cache, [choices].
            cache: The states of all prompts.
        """
        given = pad_sequence([ids[:-1] for ids in choices], batch_first=True)
        target = pad_sequence([ids[1:] for ids in choices], batch_first=True)
        real = pad_sequence([torch.ones_like(ids[1:]) for ids in choices], batch_first=True)
        mask = torch.cat([torch.ones_like(prompts), real], 1)
        if hasattr(cache, "batch_select_indices"):
            cache.batch_select_indices(rows)
            logits = self.model(input_ids=given, attention_mask=mask, past_key_values=cache).logits
        else:
            logits = self.model(input_ids=torch.cat([prompts, given], 1), attention_mask=mask).logits[:, prompts.shape[1] :]
        logits = logits.float()
        each = logits.gather(2, target[..., None])[..., 0] - logits.logsumexp(2)
        return [float(total) for total in (each.double() * real).sum(1)]


def _place(name: str) -> str:
    """The folder of an installed model, or the name itself."""
    if name in TEXT_ENCODERS.built_in() or (name in TEXT_ENCODERS.entry_points() and not Path(name).is_dir()):
        find = getattr(TEXT_ENCODERS.load(name), "model_folder", None)
        if find is None:
            raise UserError(f"{name} is not a causal language model; use smollm2, gemma3-270m, a folder or a GGUF file.")
        return str(find())
    return name


def is_language_model(name: str) -> bool:
    """Whether a text encoder is a causal language model and not a sentence encoder. A hub name counts as a sentence encoder."""
    if name in TEXT_ENCODERS.built_in() or (name in TEXT_ENCODERS.entry_points() and not Path(name).is_dir()):
        return hasattr(TEXT_ENCODERS.load(name), "model_folder")
    if find_gguf(name) is not None:
        return True
    if not os.path.isfile(os.path.join(name, "config.json")) or os.path.exists(os.path.join(name, "modules.json")):
        return False
    from transformers import AutoConfig

    try:
        return is_causal(AutoConfig.from_pretrained(name, trust_remote_code=False, local_files_only=True))
    except Exception:  # a damaged folder; loading it says what is wrong
        return False


def choice_likelihoods(
    model: CausalModel,
    questions: Sequence[Question],
    settings: LikelihoodSettings = LikelihoodSettings(),
    evidence: Sequence[str] | None = None,
    alone: dict[str, float] | None = None,
) -> list[list[float]]:
    """The likelihood of every choice of questions, by the measure of the settings.

    ``length`` is the mean of log p over the tokens of a choice. ``pmi`` is the pointwise mutual information of question and choice:
    log p(choice | prompt) minus log p(choice | the part of the prompt after the question).

    Args:
        model: The language model.
        questions: The questions.
        settings: The measure and the prompt.
        evidence: A text for each statement that stands before its prompt.
        alone: The log-likelihoods of choices without their question, for ``pmi``; those that are missing are computed and added.

    >>> question = Question.asked("Where does a fish live?", ["sea", "tree"])
    >>> choice_likelihoods(CausalModel("smollm2"), [question])  # doctest: +SKIP
    [[2.085, -4.211]]
    """
    alone = {} if alone is None else alone
    if settings.measure == "pmi":
        new = {choice for question in questions for choice in question.choices if choice not in alone}
        texts = sorted(new, key=lambda text: (len(text), text))
        starts = range(0, len(texts), BATCH)
        after = settings.prompt.partition(QUESTION)[2].strip()
        for start in track(starts, "scoring choices") if len(starts) > SHOWN else starts:
            part = texts[start : start + BATCH]
            alone |= {text: found.total for text, found in zip(part, model.log_likelihoods(after, part), strict=True)}
    prompts = [settings.prompt.replace(QUESTION, question.stem) for question in questions]
    scores: list[list[float]] = []
    number = 0
    starts = range(0, len(questions), SHARED)
    for start in track(starts, "scoring questions") if len(questions) > SHOWN else starts:
        chosen = range(start, min(start + SHARED, len(questions)))
        if evidence is None:
            likelihoods = model.log_likelihoods_of([(prompts[i], questions[i].choices) for i in chosen])
        else:
            likelihoods = []
            for i in chosen:
                before = evidence[number : number + len(questions[i].choices)]
                number += len(before)
                likelihoods.append(_with_evidence(model, prompts[i], questions[i].choices, before))
        for i, found in zip(chosen, likelihoods, strict=True):
            if settings.measure == "pmi":
                scores.append([one.total - alone[choice] for choice, one in zip(questions[i].choices, found, strict=True)])
            else:
                scores.append([one.total / one.tokens for one in found])
    return scores


def _with_evidence(model: CausalModel, prompt: str, choices: Sequence[str], evidence: Sequence[str]) -> list[LogLikelihood]:
    """Choices with the same evidence share a prompt."""
    texts = list(dict.fromkeys(evidence))
    same = [[i for i, other in enumerate(evidence) if other == text] for text in texts]
    prompts = [f"{text}\n{prompt}" if text else prompt for text in texts]
    scored = model.log_likelihoods_of([(one, [choices[i] for i in of]) for one, of in zip(prompts, same, strict=True)])
    found = {i: one for of, likelihoods in zip(same, scored, strict=True) for i, one in zip(of, likelihoods, strict=True)}
    return [found[i] for i in range(len(choices))]


def standardized(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Values of statements [G] with mean 0 and standard deviation 1 over the choices of each question; all 0 if they are equal.

    >>> standardized(torch.tensor([1.0, 3.0, 7.0, 7.0]), [2, 2])
    tensor([-1.,  1.,  0.,  0.])
    """
    parts = []
    for part in torch.split(values.double(), list(sizes)):
        centered = part - part.mean()
        spread = centered.square().mean().sqrt()
        parts.append(centered / spread if spread > 1e-9 else torch.zeros_like(part))
    return torch.cat(parts).float() if parts else values.float()


class Likelihood:
    """The likelihoods of choices as a column of a run's model. The language model is loaded when it is first needed.

    Args:
        settings: The settings of the section ``likelihood``, with a model.
        place: Where the model is now. None: where the settings say.
        weights: The fingerprint of the weights that a run was trained with. None: that of the model.
        allow_download: See :class:`CausalModel`.
        allow_pickle: See :class:`CausalModel`.
    """

    def __init__(
        self,
        settings: LikelihoodSettings,
        place: str | Path | None = None,
        weights: str | None = None,
        allow_download: bool = False,
        allow_pickle: bool = False,
    ) -> None:
        self.settings, self._lock = settings, Lock()
        self._where, self._access = str(settings.model if place is None else place), (allow_download, allow_pickle)
        self.device = torch.device("cpu")  # where the model computes
        self._model: CausalModel | None = None
        self._weights = weights

    @property
    def model(self) -> CausalModel:
        with self._lock:
            if self._model is None:
                model = CausalModel(
                    self._where, *self._access, max_length=self.settings.max_length, precision=self.settings.precision
                )
                if self._weights not in (None, model.weights_fingerprint()):
                    raise UserError(
                        f"the run was trained with other weights of the language model than those of {self._where}; put the"
                        " original model there, or train again."
                    )
                self._model = model
            self._model.model.to(self.device)
        return self._model

    @property
    def weights(self) -> str:
        """The fingerprint of the model's weights."""
        if self._weights is None:
            self._weights = self.model.weights_fingerprint()
        return self._weights

    @property
    def folder(self) -> Path | None:
        """The folder or file of the model, if a user named one."""
        return Path(self._where).absolute() if Path(self._where).exists() else None

    def identity(self) -> dict[str, Any]:
        """What determines the likelihoods."""
        default = {"precision"} if self.settings.precision == "float32" else set()  # older caches do not name it
        used = self.settings.model_dump(exclude={"model", "initial_weight"} | default)
        return {"weights": self.weights, **used}

    def evidence(self, subgraphs: Iterable[Subgraph], graph: KnowledgeGraph) -> list[str] | None:
        """The facts that stand before the prompt of each statement, if the settings ask for some."""
        count = self.settings.evidence
        return [evidence_text(subgraph, graph, count) for subgraph in subgraphs] if count else None

    def column(self, questions: Sequence[Question], evidence: Sequence[str] | None) -> Tensor:
        """The standardized likelihoods of all statements of questions: [G, 1]."""
        scores = choice_likelihoods(self.model, questions, self.settings, evidence)
        return _column(torch.tensor([one for of_question in scores for one in of_question]), questions)

    def stored_column(
        self, questions: Sequence[Question], evidence: Callable[[int, int], list[str] | None], data: str, folder: Path
    ) -> Tensor:
        """Like :meth:`column`, with a cache that is written while likelihoods are computed: an interrupted computation resumes.

        Args:
            questions: The questions.
            evidence: Gives the facts of the statements from one number to another.
            data: The fingerprint of the questions and their subgraphs.
            folder: The folder of the cache.
        """
        cache = folder / f"likelihood-{fingerprint(self.identity(), data)}.safetensors"
        ends = [0, *accumulate(len(question.choices) for question in questions)]
        values = _stored(cache, ends)
        for start in range(ends.index(len(values)), len(questions), SAVED):
            part = questions[start : start + SAVED]
            if len(questions) > SAVED:
                say(f"scoring questions {start + 1:,} to {start + len(part):,} of {len(questions):,} with {self.settings.model}.")
            before = evidence(ends[start], ends[start + len(part)])
            scores = choice_likelihoods(self.model, part, self.settings, before)
            values = torch.cat([values, torch.tensor([one for of_question in scores for one in of_question])])
            save_tensors(cache, {"likelihoods": values})
        return _column(values, questions)


def _column(values: Tensor, questions: Sequence[Question]) -> Tensor:
    return standardized(values, [len(question.choices) for question in questions])[:, None]


def _stored(cache: Path, ends: Sequence[int]) -> Tensor:
    """The likelihoods in a cache: all, those of the first questions, or none."""
    if not cache.exists():
        return torch.zeros(0)
    if not cache.is_file():
        raise UserError(f"{cache} is not a file; delete it, it is made again.")
    values = load_tensors(cache, is_own=True).get("likelihoods")
    if values is None or values.dim() != 1 or values.dtype != torch.float32 or len(values) not in ends:
        raise UserError(f"{cache} is damaged (its likelihoods do not fit the questions); delete it, it is made again.")
    return values
