"""The random windows: the same for every engine, so also made by the Rust worker in `worker/src/windows.rs`."""

SIDE = 512
MASK = (1 << 64) - 1


def splitmix(seed):
    """SplitMix64: an endless stream of 64-bit numbers that is a few lines in any language."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def windows(seed, count, height, width):
    """Top-left corners (row, col) of `count` windows of SIDE x SIDE inside the image."""
    numbers = splitmix(seed)
    return [(next(numbers) % (height - SIDE + 1), next(numbers) % (width - SIDE + 1)) for _ in range(count)]
