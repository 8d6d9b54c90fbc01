"""Settings of the text encoder."""

from typing import Literal

from pydantic import Field, field_validator

from mhgrn.settings import Settings

QUESTION = "{question}"  # its place in a prompt


class TextEncoderSettings(Settings):
    """The text encoder and how it reads a question.

    ``auto`` means ``separate`` and ``mean`` for sentence encoders, ``pair`` and ``last`` for causal decoders, ``pair`` and
    ``pooler`` for others. A sentence encoder may name another pooling.

    >>> TextEncoderSettings(max_length=32).differing()
    {'max_length': 32}
    """

    encoder: str = Field("minilm", description="minilm (built in), another installed one, a folder, or a Hugging Face hub name")
    encoding: Literal["auto", "separate", "pair"] = Field("auto", description="encode stem and choice separately or as a pair")
    pooling: Literal["auto", "mean", "cls", "pooler", "last"] = Field(
        "auto", description="how token vectors become one vector; last: the last token of the text, for causal decoders"
    )
    input_format: Literal["default", "add_qa_prefix", "fairseq", "no_extra_sep"] = Field(
        "default", description="layout of a pair: add_qa_prefix adds Q: and A:, no_extra_sep uses one separator, fairseq does both"
    )
    max_length: int = Field(64, ge=8, le=1_000_000, description="longest input in tokens; longer texts are truncated")
    frozen_epochs: int | None = Field(None, ge=0, le=10**9, description="epochs before the encoder is trained too; null: never")
    frozen_dropout: bool = Field(False, description="keep dropout on while the encoder is frozen; vectors are then not cached")
    learning_rate: float = Field(1e-5, gt=0, description="learning rate of the text encoder")


class LikelihoodSettings(Settings):
    """A causal language model whose likelihoods of the choices are a term of the score.

    >>> LikelihoodSettings(model="smollm2").differing()
    {'model': 'smollm2'}
    """

    model: str | None = Field(
        None, description="a causal language model: smollm2, gemma3-270m, a folder, a GGUF file or a hub name; null: none"
    )
    measure: Literal["pmi", "length"] = Field(
        "pmi", description="pmi: log p(choice | question) − log p(choice); length: log p(choice | question) per token"
    )
    prompt: str = Field("Question: {question}\nAnswer:", description="the text before the choice; {question} is the question")
    evidence: int = Field(0, ge=0, le=100, description="facts between question and choice that stand before the prompt; 0: none")
    max_length: int = Field(256, ge=16, le=1_000_000, description="longest input in tokens; the beginning of longer ones is cut")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="in which the language model computes; bfloat16 is faster on processors with instructions for it"
    )
    initial_weight: float = Field(1.0, description="of the standardized likelihood in the score; it is trained")

    @field_validator("prompt")
    @classmethod
    def _has_question(cls, prompt: str) -> str:
        if prompt.count(QUESTION) != 1:
            raise ValueError(f"input should contain {QUESTION} once")
        return prompt
