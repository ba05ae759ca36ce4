"""Opens a model of the transformers library: one that takes pictures, or one that reads text alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from models.model_errors import ModelUnavailable

if TYPE_CHECKING:
    from models.causal_lm import CausalLM

OF_PICTURES = ("min_pixels", "max_pixels")
OF_TEXT = ("trust_remote_code",)


def open_local(pretrained: str, *, pictures: bool, **chosen: Any) -> CausalLM:
    """The model of a folder or of the hub, by what its config.json says. Raises ModelUnavailable.

    pictures: False if none will be shown; a vision-language model is then loaded without its encoder if it can be.
    chosen: arguments of models.vision_language.HFVision and models.causal_lm.CausalLM; those that a kind lacks are
    refused where they say something.
    """
    from models.vision_weights import kind_of

    kind = kind_of(pretrained, chosen.get("revision"))
    does = kind.sees and (pictures or not kind.reads_text_alone)
    lacking = OF_TEXT if does else OF_PICTURES
    if said := [name for name in lacking if chosen.get(name)]:
        how = "with its eyes" if does else "for text alone"
        raise ModelUnavailable(f"the model in {pretrained} is loaded {how}, without {' and '.join(said)}; leave it out")
    given = {name: value for name, value in chosen.items() if name not in lacking}
    if does:
        from models.vision_language import HFVision

        return HFVision(pretrained, **given)
    from models.causal_lm import CausalLM

    return CausalLM(pretrained, **given)
