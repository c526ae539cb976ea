# SPDX-License-Identifier: BSD-3-Clause
"""Arrays in the memory of a device, by ``__cuda_array_interface__``: of a fake one, which ends the process at a touch."""

import ctypes
import os
import unittest

import numpy as np
import reprieve
from reprieve._tensors import is_on_device
from support import RANK, SIZE, Case


class _Devices(ctypes.Structure):
    """As tests/devices/fake_device.hpp has it."""

    _fields_ = [
        ("allocate", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int)),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("bytes_of", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
    ]


def _driver():
    path = os.environ.get("REPRIEVE_FAKE_CUDA")
    if path is None:
        raise unittest.SkipTest("no fake driver")
    library = ctypes.CDLL(path)
    library.fake_devices.restype = ctypes.POINTER(_Devices)
    return library.fake_devices().contents


class DeviceArray:
    """As much as the library asks of an array of CuPy."""

    def __init__(self, shape, dtype="f8", strides=None, offset=0, items=None):
        self.driver = _driver()
        self.dtype = np.dtype(dtype)
        size = (items or int(np.prod(shape))) * self.dtype.itemsize
        self.address = self.driver.allocate(size, 0, 0)
        shadow = self.driver.bytes_of(self.address)
        #: All of it, for the test.
        self.seen = np.frombuffer((ctypes.c_char * size).from_address(shadow), self.dtype)
        self.__cuda_array_interface__ = {
            "shape": tuple(shape),
            "typestr": self.dtype.str,
            "data": (self.address + offset, False),
            "strides": strides,
            "version": 3,
            "stream": 1,
        }


class Devices(Case):
    def test_arrays_of_every_kind(self):
        def make():
            plain, strided = DeviceArray((3, 4), "f4"), DeviceArray((5,), "i8", strides=(16,), items=10)
            times, field = DeviceArray((2,), "M8[s]"), DeviceArray((4, 6))
            grid = reprieve.distributed(field, shape=(2 * SIZE, 4), offset=(2 * RANK, 0), ghost=1)
            state = {"plain": plain, "own": reprieve.per_rank(strided), "times": times, "field": grid}
            return state, (plain.seen, strided.seen, times.seen, field.seen)

        state, saved = make()
        for array in saved:
            array[:] = np.arange(array.size).astype(array.dtype)
        saved[1][:] += RANK
        saved[3][:] += 100 * RANK
        self.save(state)
        state, restored = make()
        for array in restored:
            array[:] = np.array(-1).astype(array.dtype)
        self.restore(state)
        inner = np.pad(np.ones((2, 4), bool), 1).ravel()
        for before, after, part in zip(saved, restored, (np.s_[:], np.s_[::2], np.s_[:], inner)):
            expected = np.full_like(before, np.array(-1).astype(before.dtype))
            expected[part] = before[part]
            np.testing.assert_array_equal(after, expected)

    def test_functions(self):
        field, place = DeviceArray((4,)), {"shape": (4 * SIZE,), "offset": (4 * RANK,), "dtype": float}
        field.seen[:] = RANK + 1
        self.comes_back({"u": reprieve.distributed(lambda: field, **place)}, field.seen)
        text = r"state\['u'\]\.value: the function returns a copy"
        for make in (lambda: DeviceArray((4,)), lambda: field.seen.copy()):
            self.refused(reprieve.UsageError, text, {"u": reprieve.distributed(make, **place)})

    def test_the_host_takes_it_over(self):
        array = DeviceArray((6,))
        array.seen[:] = 4
        self.save({"array": array})
        host = np.zeros(6)
        self.restore({"array": host})
        self.assertTrue((host == 4).all())

    def test_what_cannot_be(self):
        masked = DeviceArray((2,))
        masked.__cuda_array_interface__["mask"] = masked
        read_only = DeviceArray((2,))
        read_only.__cuda_array_interface__["data"] = (read_only.address, True)
        for state, message in (
            ({"array": masked}, "a masked array is two arrays"),
            ({"array": read_only}, "read-only"),
            ({"array": reprieve.replicated(DeviceArray((2,)), growing=True)}, "on the host, can be growing"),
        ):
            with self.subTest(message):
                self.refused(reprieve.UsageError, message, state)

    def test_an_array_that_does_not_tell_at_the_moment(self):
        class Parameter:
            """As PyTorch has it, where a gradient is wanted."""

            @property
            def __cuda_array_interface__(self):
                raise RuntimeError("detach it first")

        self.assertTrue(is_on_device(Parameter()))
        self.assertFalse(is_on_device(3))

    def test_an_array_that_has_moved_is_an_error(self):
        array = DeviceArray((2,))
        now = {"data": (array.address + 8, False), "shape": (1,)}
        state, text = {"array": array}, "another shape, type or memory"
        self.refused_later(reprieve.UsageError, text, state, lambda _: array.__cuda_array_interface__.update(now))
