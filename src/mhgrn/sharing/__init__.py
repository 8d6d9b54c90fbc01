"""Models that travel: a run folder that names no place of this machine, with a model card; to the Hugging Face hub and back.

Loading one reads JSON, YAML, numbers and safetensors, each verified against its checksum. No code from the folder is run.
"""

from mhgrn.sharing.card import model_card
from mhgrn.sharing.measured import store_evaluation, store_faithfulness
from mhgrn.sharing.pretrained import Shareable, find_shared, is_hub_name, push_to_hub, save_pretrained

__all__ = [
    "Shareable",
    "find_shared",
    "is_hub_name",
    "model_card",
    "push_to_hub",
    "save_pretrained",
    "store_evaluation",
    "store_faithfulness",
]
