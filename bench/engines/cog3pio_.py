"""cog3pio, where its wheel can be had: whole files alone, on the CPU."""

from importlib.metadata import version

import numpy as np
from cog3pio import CogReader

from .adapter import Adapter


class Cog3pio(Adapter):
    def versions(self):
        return {"cog3pio": version("cog3pio")}

    def read(self, path):
        return np.from_dlpack(CogReader(path))


def adapter():
    return Cog3pio()
