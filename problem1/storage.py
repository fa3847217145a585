"""What is written to disk: whole or not at all, weights as safetensors, results that know which weights they are of."""

import contextlib
import hashlib
import json
import os
from pathlib import Path

import safetensors.torch
import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open


@contextlib.contextmanager
def atomic_path(path):
    """Yield a temporary path beside `path`; it takes `path`'s place only when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def one_process_at_a_time(path):
    """Others that ask for the same path wait. The system frees the lock of a process that is killed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path, poll_interval=0.5):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # removed while it is ours: FileLock does not trust a file without name
                path.unlink()


def write_json(path, data):
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(data, indent=1) + "\n")


def save_figure(figure, path):
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, bbox_inches="tight")


def save_tensors(path, tensors, about):
    """`about` is a dictionary that JSON can hold; it travels in the file's header."""
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        safetensors.torch.save_file(tensors, temporary, metadata={"about": json.dumps(about)})


def load_tensors(path):
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist.") from None
    except SafetensorError as error:
        raise ValueError(f"{path} is not a readable safetensors file ({error}).") from None


def load_into(model, tensors, path):
    """Fill `model` from the file at `path`, or say in one sentence what does not fit."""
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise ValueError(
                f"{path} does not fit this model: {name} is {found.get(name, 'missing')} in the file, "
                f"{expected.get(name, 'absent')} in the model."
            )
    model.load_state_dict(tensors, strict=False)
    return model


def weights_hash(model):
    """The first 16 hex digits of a SHA-256 over all weights: the key under which results of a model are stored."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().to(torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def require_weights(found, expected, run, row_folder):
    """What is published has the very weights of its row, which may have been trained on another machine."""
    if found != expected:
        raise ValueError(
            f"{run} holds other weights than its row ({found}, not {expected}): copy this folder from the machine that "
            f"the row in {row_folder} names, or delete the row to have it run again."
        )
