//! The CUDA backend of tiffjet: whole batches of tiles decoded and placed in device memory.
