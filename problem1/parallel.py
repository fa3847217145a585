"""Independent forward passes side by side: one Python thread per core, one torch thread each."""

import os
from concurrent.futures import ThreadPoolExecutor

import torch
from tqdm.auto import tqdm


def parallel_map(function, items, progress=None, total=None):
    """[function(item) for item in items], on all cores and without gradients; `progress` names a bar."""

    @torch.inference_mode()
    def call(item):
        return function(item)

    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(os.cpu_count(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            results = pool.map(call, items)
            return list(tqdm(results, desc=progress, total=total, disable=progress is None, leave=False))
    finally:
        torch.set_num_threads(before)
