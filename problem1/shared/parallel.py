"""Independent forward passes side by side: one Python thread per core, one torch thread each."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
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
    """[function(item) for item in items], on all cores and without gradients; `progress` names a bar."""
    return list(parallel_results(function, items, progress, total))


def parallel_results(
    function: Callable[[Item], Result], items: Iterable[Item], progress: str | None = None, total: int | None = None
) -> Iterator[Result]:
    """The same, one by one: an item is taken when a core is about to need it and a result given away when it is there,
    so many batches are never in memory as a whole.
    """

    @torch.inference_mode()
    def call(item: Item) -> Result:
        return function(item)

    before, workers = torch.get_num_threads(), cores()
    waiting: deque[Future[Result]] = deque()
    bar = progress_bar(total=total, desc=progress, show=progress is not None, leave=False)

    def collect() -> Result:
        result = waiting.popleft().result()
        bar.update()
        return result

    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(call, item))
                    if len(waiting) >= 2 * workers:
                        yield collect()
                while waiting:
                    yield collect()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        bar.close()
        torch.set_num_threads(before)
