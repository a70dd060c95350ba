"""Names in a diagram that an attribute of a `torch.nn.Module` cannot go by."""

from __future__ import annotations

from keyword import iskeyword
from typing import Final

# What every module has of itself. Torch is not imported to write code, and its newest version may
# not be the one that runs it; what begins with an underscore is no name in a diagram.
MEMBERS: Final = frozenset(
    {"T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children"}
    | {"compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward"}
    | {"get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half", "ipu"}
    | {"load_state_dict", "modules", "mtia", "named_buffers", "named_children", "named_modules"}
    | {"named_parameters", "parameters", "register_backward_hook", "register_buffer"}
    | {"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"}
    | {"register_full_backward_pre_hook", "register_load_state_dict_post_hook"}
    | {"register_load_state_dict_pre_hook", "register_module", "register_parameter"}
    | {"register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_"}
    | {"set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty", "train"}
    | {"training", "type", "xpu", "zero_grad"}
)


def is_attribute(name: str) -> bool:
    """Whether ``self.NAME`` may be a parameter or a child, also one below (``bert.E``)."""
    return all(
        part.isidentifier() and not iskeyword(part) and part not in MEMBERS
        for part in name.split(".")
    )
