"""Random encoders small enough to run on every triple of a test's graph, which cut words into letters."""

from pathlib import Path
from typing import Literal

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

LETTERS = "abcdefghijklmnopqrstuvwxyzé'-."


def letter_encoder(
    folder: Path, kind: Literal["bert", "roberta", "untrimmed"] = "bert", width: int = 8, seed: int = 0, dropout: float = 0.1
) -> Path:
    """BERT's word pieces, or RoBERTa's bytes with or without the space before a word counted to it."""
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    if kind == "bert":
        pieces = [*special, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
        tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    else:
        pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
        # one merge: a space and an a are one token, so that a token may begin before the span it belongs to
        vocabulary = {piece: i for i, piece in enumerate([*pieces, "Ġa"])}
        tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "a")], unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=kind == "roberta")
        tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", cls_token="<s>", sep_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    heads = {"hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "pad_token_id": 0}
    heads |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    sizes = {"vocab_size": len(tokenizer.get_vocab()), "max_position_embeddings": 128, **heads}
    model = BertModel(BertConfig(**sizes)) if kind == "bert" else RobertaModel(RobertaConfig(**sizes))
    model.save_pretrained(folder)
    return folder
