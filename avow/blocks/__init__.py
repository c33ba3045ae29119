"""Floor 1: layers and loaders shared by two or more methods."""

from avow.core.renamed import Moved, keep_old_paths

keep_old_paths(
    __name__,
    {
        "adapted": Moved("avow.blocks.lora_text"),
        "kept": Moved("avow.blocks.cached_text"),
        "lean": Moved("avow.blocks.attention_inference"),
        "names": Moved("avow.blocks.imagenet_names"),
        "ranked": Moved("avow.blocks.rank_pooling"),
    },
)
