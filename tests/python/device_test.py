# SPDX-License-Identifier: BSD-3-Clause
"""Arrays in the memory of a device, by ``__cuda_array_interface__``: of a fake one, which ends the process at a touch."""

import ctypes
import os
import unittest

import numpy as np
import reprieve
from reprieve._tensors import is_on_device
from support import RANK, SIZE, Case

_C = ctypes


class _Devices(_C.Structure):
    """As tests/devices/fake_device.hpp has it."""

    _fields_ = [
        ("allocate", _C.CFUNCTYPE(_C.c_void_p, _C.c_size_t, _C.c_int, _C.c_int)),
        ("release", _C.CFUNCTYPE(None, _C.c_void_p)),
        ("bytes_of", _C.CFUNCTYPE(_C.c_void_p, _C.c_void_p)),
    ]


def _driver():
    path = os.environ.get("REPRIEVE_FAKE_CUDA")
    if path is None:
        raise unittest.SkipTest("no fake driver")
    library = _C.CDLL(path)
    library.fake_devices.restype = _C.POINTER(_Devices)
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
        self.seen = np.frombuffer((_C.c_char * size).from_address(shadow), self.dtype)
        self.interface = {
            "shape": tuple(shape),
            "typestr": self.dtype.str,
            "data": (self.address + offset, False),
            "strides": strides,
            "version": 3,
            "stream": 1,
        }

    @property
    def __cuda_array_interface__(self):
        return self.interface


class Devices(Case):
    def test_arrays_of_every_kind(self):
        def state():
            plain = DeviceArray((3, 4), "f4")
            strided = DeviceArray((5,), "i8", strides=(16,), items=10)
            times = DeviceArray((2,), "M8[s]")
            field = DeviceArray((4, 6))
            arrays = {"plain": plain, "own": reprieve.per_rank(strided), "times": times}
            arrays["field"] = reprieve.distributed(
                field, shape=(2 * SIZE, 4), offset=(2 * RANK, 0), ghost=1
            )
            return arrays, plain, strided, times, field

        first, plain, strided, times, field = state()
        plain.seen[:] = np.arange(12)
        strided.seen[:] = np.arange(10) + RANK
        times.seen.view("i8")[:] = (7, 8)
        field.seen[:] = np.arange(24) + 100 * RANK
        self.save(first)
        again, plain2, strided2, times2, field2 = state()
        strided2.seen[:] = -1
        field2.seen[:] = -1
        self.restore(again)
        self.assertTrue((plain2.seen == plain.seen).all())
        self.assertTrue((strided2.seen[::2] == strided.seen[::2]).all())
        self.assertTrue((strided2.seen[1::2] == -1).all())
        self.assertTrue((times2.seen == times.seen).all())
        inner = np.s_[1:-1, 1:-1]
        self.assertTrue((field2.seen.reshape(4, 6)[inner] == field.seen.reshape(4, 6)[inner]).all())
        self.assertEqual((field2.seen == -1).sum(), 24 - 8)

    def test_functions(self):
        field, place = DeviceArray((4,)), {"shape": (4 * SIZE,), "offset": (4 * RANK,), "dtype": float}
        field.seen[:] = RANK + 1
        state = {"u": reprieve.distributed(lambda: field, **place)}
        self.save(state)
        field.seen[:] = -1
        self.restore(state)
        self.assertTrue((field.seen == RANK + 1).all())
        for make in (lambda: DeviceArray((4,)), lambda: field.seen.copy()):
            with self.assertRaisesRegex(reprieve.UsageError, r"state\['u'\]\.value: the function returns a copy"):
                self.handler({"u": reprieve.distributed(make, **place)})

    def test_the_host_takes_it_over(self):
        array = DeviceArray((6,))
        array.seen[:] = 4
        self.save({"array": array})
        host = np.zeros(6)
        self.restore({"array": host})
        self.assertTrue((host == 4).all())

    def test_what_cannot_be(self):
        masked = DeviceArray((2,))
        masked.interface["mask"] = masked
        read_only = DeviceArray((2,))
        read_only.interface["data"] = (read_only.address, True)
        for state, message in (
            ({"array": masked}, "a masked array is two arrays"),
            ({"array": read_only}, "read-only"),
            ({"array": reprieve.replicated(DeviceArray((2,)), growing=True)}, "on the host, can be growing"),
        ):
            with self.subTest(message), self.assertRaisesRegex(reprieve.UsageError, message):
                self.save(state)

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
        with self.assertRaisesRegex(reprieve.UsageError, "another shape, type or memory"):
            with self.handler({"array": array}) as handler:
                for _ in handler.steps(1):
                    array.interface["data"] = (array.address + 8, False)
                    array.interface["shape"] = (1,)
                    handler.request_checkpoint()
