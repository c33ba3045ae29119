"""VSE-infinity: parts pooled by learnt weights over their sorted values, and a cosine.

Paper: Chen et al., "Learning the Best Pooling Strategy for Visual Semantic Embedding",
CVPR 2021.
"""

from functools import partial

from avow.blocks.joint_embedding import joint_embedding

build = partial(joint_embedding, pool="learnt")
