"""What is written to disk: whole or not at all, weights as safetensors, results that know which model they are of."""

import contextlib
import glob
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import safetensors.torch
import torch
from filelock import FileLock
from matplotlib.figure import Figure
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from problem1.shared.errors import UserError

Model = TypeVar("Model", bound=nn.Module)


# --- whole or not at all ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes `path`'s place only when the block ends without an error."""
    path = Path(path)
    check_file_path(path)
    clear_leftovers(path)
    temporary = path.with_name(f".{path.stem}.{platform.node()}-{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.filename not in (None, str(temporary), str(path)):  # something else could not be read or written
            raise
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_file_path(path: Path) -> None:
    """Make the folder of a file, or refuse a path that no file can have. What is no file, a device for instance, would
    be replaced by one."""
    try:
        if os.path.lexists(path) and not path.is_file():
            raise UserError(f"{path} is {'a folder' if path.is_dir() else 'no file'}; name a file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.stat()
    except FileNotFoundError:  # as it should be
        pass
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error


def clear_leftovers(path: Path) -> None:
    """Temporary files of `path` whose process was killed on this machine."""
    stem, suffix = glob.escape(path.stem), glob.escape(path.suffix)
    for leftover in path.parent.glob(f".{stem}.{platform.node()}-*{suffix}"):
        process = leftover.name.removesuffix(path.suffix).rpartition("-")[2]
        if process.isdecimal() and not is_running(int(process)):
            leftover.unlink(missing_ok=True)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        return True
    return True


@contextlib.contextmanager
def one_process_at_a_time(path: str | Path) -> Iterator[None]:
    """Others that ask for the same path wait. The system frees the lock of a process that is killed."""
    path = Path(path)
    check_file_path(path)
    try:
        lock = FileLock(path, poll_interval=0.5).acquire()
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
    with lock:
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # removed while it is ours: FileLock does not trust a file without name
                path.unlink()


def write_json(path: str | Path, data: Any) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(data, indent=1) + "\n")


def write_table(table: pd.DataFrame, path: str | Path) -> None:
    """The one way to write a table: CSV, six significant digits."""
    with atomic_path(path) as temporary:
        table.to_csv(temporary, index=False, float_format="%.6g")


def save_figure(figure: Figure, path: str | Path) -> None:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, bbox_inches="tight")


# --- tensors and models ----------------------------------------------------------------------------------------------


def save_tensors(path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """`about` is a dictionary that JSON can hold; it travels in the file's header."""
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        temporary.write_bytes(safetensors.torch.save(tensors, metadata={"about": json.dumps(about)}))


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file, and what its header says about them."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            if not isinstance(about, dict):
                raise UserError(f"{path} is of another project: its header says {str(about)[:200]}.")
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is not a readable safetensors file ({error}).") from None


def save_model(model: nn.Module, path: str | Path, **about: Any) -> None:
    """A parameter that several layers share is one entry of the file, under its first name."""
    save_tensors(path, dict(model.named_parameters()), {"shape": model.shape, **about})


def load_model(path: str | Path, model_class: type[Model], needs: str) -> Model:
    """A model of this class from a file whose header holds its shape; every such shape has a key `needs`."""
    tensors, about = load_tensors(path)
    shape, name = about.get("shape"), model_class.__name__.lower()
    if not isinstance(shape, dict) or needs not in shape:
        raise UserError(f"{path} holds no {name}: its header names no {needs} (it says {json.dumps(about)[:200]}).")
    try:
        model = model_class(**shape)
    except TypeError:
        raise UserError(f"{path} is of another version: its header says {json.dumps(shape)}.") from None
    return load_into(model, tensors, path).eval()


def load_into(model: Model, tensors: Mapping[str, Tensor], path: str | Path) -> Model:
    """Fill `model` from the file at `path`, or say in one sentence what does not fit."""
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise UserError(
                f"{path} does not fit this model: {name} is {found.get(name, 'missing')} in the file, "
                f"{expected.get(name, 'absent')} in the model."
            )
    model.load_state_dict(tensors, strict=False)
    return model


def model_hash(model: nn.Module) -> str:
    """16 hex digits of a SHA-256 over class, shape and weights: the same weights in another shape are another model."""
    about = [type(model).__name__, getattr(model, "shape", None)]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().to(torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
