"""The encoder of the tests as a model of somebody else's package."""

import os
import time

from encoders import ColourEncoder


class Slow(ColourEncoder):
    """Takes its time, so that it can be stopped in the middle."""

    def encode_prepared(self, pixels):
        time.sleep(float(os.environ.get("ENCODER_PAUSE", "0")))
        return super().encode_prepared(pixels)


def build():
    return Slow()
