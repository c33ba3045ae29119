"""VSE++: the mean of the parts, and a cosine.

Paper: Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives",
BMVC 2018, on region or grid features with average pooling as in Chen et al., CVPR 2021.
`bend = false` is the plain linear encoder; the default is the encoder of Chen et al. The
first system has `bend = false`, `text_way = "ahead"` and `text_pool = "last"`.
"""

from functools import partial

from avow.blocks.joint_embedding import joint_embedding

build = partial(joint_embedding, pool="mean")
