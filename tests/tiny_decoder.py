"""Random causal language models small enough for tests, which cut words into letters."""

from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def letter_decoder(
    folder: Path,
    kind: Literal["llama", "gpt2"] = "llama",
    padding_side: Literal["left", "right"] = "right",
    begins_texts: bool = False,
    seed: int = 0,
) -> Path:
    """A decoder without a padding token; each byte is a token, and a space belongs to the letter a after it."""
    special = ["<s>", "</s>"]
    pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġa"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "a")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if begins_texts:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", padding_side=padding_side
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    model: Any
    if kind == "llama":
        sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
        model = LlamaForCausalLM(
            LlamaConfig(vocab_size=len(vocabulary), max_position_embeddings=512, initializer_range=0.5, **sizes)
        )
    else:
        sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 512}
        model = GPT2LMHeadModel(GPT2Config(vocab_size=len(vocabulary), initializer_range=0.5, **sizes))
    model.eval().save_pretrained(folder)
    return folder
