"""The models that are shipped with plans, and the block that is the whole of each."""

from __future__ import annotations

from pathlib import Path

from tier import some

from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import Project
from xg.syntax.ast import PlanProduct

DIAGRAMS = Path(__file__).parents[3] / "diagrams"
MODELS = {
    "models/transformer.xg": "LM",
    "models/gpt2.xg": "GPT2",
    "models/llama.xg": "Llama",
    "models/mixtral.xg": "Mixtral",
    "models/deepseek2.xg": "DeepSeek2",
    "models/bert.xg": "MLM",
    "models/distilbert.xg": "DistilBERT",
    "models/gemma2.xg": "Gemma2",
    "models/t5.xg": "T5",
    "models/whisper.xg": "Whisper",
    "models/vit.xg": "ViT",
    "models/clip.xg": "CLIP",
    "models/rwkv.xg": "RWKV",
    "models/resnet.xg": "ResNet",
}


def names(project: Project) -> list[str]:
    """The plans that a file names itself."""
    main = project.main
    return list(dict.fromkeys(each.name.name for each in main.plan_decls))


def products(project: Project) -> set[str]:
    """The plans of a file that are products of others."""
    return {each.name.name for each in project.main.plan_decls if isinstance(each, PlanProduct)}


def tried(project: Project) -> list[str]:
    """Every plan that is written out, and the first product for each set of axes; or all plans."""
    plans, made = plans_of(project, {}), products(project)
    return some(plans, lambda plan: frozenset(plans[plan].mesh) if plan in made else plan)
