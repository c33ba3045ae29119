"""TcVSE: the largest value of each channel over the parts, and a cosine.

Paper: "Trust-Consistent Visual Semantic Embedding for Image-Text Matching", the first
form of TCL, which pools by maximum. Its published system pools by mean: `pool = "mean"`.
"""

from functools import partial

from avow.blocks.joint_embedding import joint_embedding

build = partial(joint_embedding, pool="max")
