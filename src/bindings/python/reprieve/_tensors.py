# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on a device, as numpy sees their shape: by ``__cuda_array_interface__`` (CuPy, Numba, PyTorch); tensors and models
of PyTorch. It is never imported here: a program that has a tensor has imported it.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np

from ._errors import UsageError
from ._markers import Node


def is_on_device(value: Any) -> bool:
    """Whether it is an array that says where on a device it lies."""
    if isinstance(value, np.ndarray):
        return False
    try:
        return hasattr(value, "__cuda_array_interface__")
    except RuntimeError:  # a parameter of PyTorch that is on a device: it says where only when it is detached
        return True


def as_array(value: Any, where: str) -> Any:
    """An array of numpy with the address, the shape and the strides of an array on a device; anything else as it is.

    The elements of such an array must not be touched: the host cannot reach them.
    """
    if not is_on_device(value):
        return value
    exported = value.__cuda_array_interface__
    if exported.get("mask") is not None:
        raise UsageError(f"{where}: a masked array is two arrays: save its data and its mask, each by its own name")
    address, read_only = exported["data"]
    shape = tuple(int(length) for length in exported["shape"])
    dtype = np.dtype(exported["typestr"])
    if dtype.kind == "V" and exported.get("descr"):
        dtype = np.dtype(exported["descr"])
    if 0 in shape:
        return np.empty(shape, dtype)
    if read_only:
        raise UsageError(f"{where}: the array is read-only, so a restore could not write it. Pass a copy: array.copy()")
    interface = {
        "version": 3,
        "typestr": exported["typestr"],
        "shape": shape,
        "strides": exported.get("strides"),
        "data": (int(address), False),
    }
    # The array keeps alive what it is made of, and so the owner of the memory.
    return np.asarray(types.SimpleNamespace(owner=value, __array_interface__=interface)).view(dtype)


def is_torch(value: Any, name: str) -> bool:
    """Whether it is one of PyTorch's class of that name: "Tensor" (or a parameter of a model), "Generator", "nn.Module"."""
    found: Any = sys.modules.get("torch")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None and isinstance(value, found)


def has_state_dict(value: Any) -> bool:
    """Whether it returns its state by itself, and takes it back: models, optimizers, plans of learning rates."""
    functions = (getattr(value, name, None) for name in ("state_dict", "load_state_dict"))
    return not isinstance(value, type) and all(map(callable, functions))


def array_of(value: Any, where: str) -> Any:
    """The memory of a tensor, or of an array on a device, as an array of numpy: what is written into one stands in the other.
    Anything else as it is.

    Raises UsageError for tensors that have no memory which numpy could see: sparse, quantized.
    """
    if not is_torch(value, "Tensor"):
        return as_array(value, where)
    try:
        plain = value.detach()
        if plain.is_cuda:
            return as_array(plain, where)
        if plain.dtype == sys.modules["torch"].bfloat16:  # numpy does not know it
            plain = plain.view(sys.modules["torch"].int16)
        return plain.numpy()
    except (TypeError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"{where}: the tensor cannot be saved from its memory: {error}. Put a dense tensor there; a model "
            "is saved as a copy of its tensors by reprieve.replicated(model)"
        ) from error


def tensor_bytes(tensor: Any, where: str) -> tuple[str, np.ndarray]:
    """The type and the elements of a tensor, on whatever device it is: a copy where that is not the memory of this process."""
    return str(tensor.dtype).removeprefix("torch."), np.ascontiguousarray(array_of(tensor.detach().cpu(), where))


def tensor_of(name: str, array: np.ndarray) -> Any:
    """The tensor that `tensor_bytes` was asked for; the array if PyTorch is not there, since somebody only reads the file."""
    torch = sys.modules.get("torch")
    if torch is None:
        return array
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if name == "bfloat16" else tensor


class ModelNode(Node):
    """A model in the state: a dictionary of its tensors, which stay where they are."""

    def __init__(self, model: Any, parent: Node, key: str, where: str) -> None:
        self.model = model
        super().__init__(model.state_dict(), parent, key, where)

    def find(self) -> dict[Any, Any]:
        if self.get() is not self.model:
            raise UsageError(f"{self.where} is another model than when the state was handed over: load into the first one")
        return self.model.state_dict()

    def restored(self) -> None:
        """Its tensors are there already; a model may make more of them, and may have values that are no tensors."""
        self.model.load_state_dict(self.dictionary)
