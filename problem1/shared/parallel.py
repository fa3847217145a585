"""Independent forward passes side by side: one Python thread per core, one torch thread each."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

from problem1.shared.progress import progress_bar
from problem1.shared.settings import cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[[Item], Result], items: Iterable[Item], progress: str | None = None, total: int | None = None
) -> list[Result]:
    """[function(item) for item in items], on all cores and without gradients; `progress` names a bar.

    Items are taken when a core is about to need them, so a generator of many batches is never in memory as a whole.
    """

    @torch.inference_mode()
    def call(item: Item) -> Result:
        return function(item)

    before, workers = torch.get_num_threads(), cores()
    results: list[Result] = []
    waiting: deque[Future[Result]] = deque()
    bar = progress_bar(total=total, desc=progress, show=progress is not None, leave=False)

    def collect() -> None:
        results.append(waiting.popleft().result())
        bar.update()

    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(call, item))
                    if len(waiting) >= 2 * workers:
                        collect()
                while waiting:
                    collect()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return results
    finally:
        bar.close()
        torch.set_num_threads(before)
