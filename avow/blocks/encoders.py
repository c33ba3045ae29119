"""Settings of the two encoders that most methods have, as fields that a recipe can set."""

from dataclasses import dataclass

from avow.blocks.projection import VisualProjection
from avow.blocks.text import TextEncoder, TextKind, Way, build_text


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """text_source: folder or hub name of a transformer, or file of word vectors.

    dropout_word acts on word vectors, dropout_image on the features of images, dropout_head
    on what the encoders return.
    """

    visual_dim: int = 2048
    vocabulary: int = 10_000
    dim: int = 1024
    word_dim: int = 300
    text: TextKind = "gru"
    text_source: str = ""
    pretrained: bool = True
    dropout_word: float = 0.0
    dropout_image: float = 0.0
    dropout_head: float = 0.0

    def text_encoder(self, way: Way = "both") -> TextEncoder:
        """A new text encoder; `way`: in which directions a GRU reads."""
        return build_text(
            self.text,
            dim=self.dim,
            vocabulary=self.vocabulary,
            word_dim=self.word_dim,
            source=self.text_source,
            pretrained=self.pretrained,
            dropout=self.dropout_word,
            way=way,
        )

    def linear_projection(self) -> VisualProjection:
        """A new linear map of image features into the common space."""
        return VisualProjection(
            self.visual_dim, self.dim, bend=False, dropout=self.dropout_image
        )
