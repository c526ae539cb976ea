# SPDX-License-Identifier: BSD-3-Clause
"""Tensors, models and optimizers of PyTorch in the state. Exit code 77 by main.py: it is not installed."""

import numpy as np
import reprieve
import torch
from support import RANK, SIZE, Case


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


class Tensors(Case):
    def test_every_type_in_place(self):
        names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()

        def make(fill):
            made = {name: torch.full((2, 3), fill, dtype=getattr(torch, name)) for name in names}
            made |= {"scalar": torch.tensor(fill), "empty": torch.zeros(0, 3), "turned": torch.full((4, 5), fill).t()[1:, ::2]}
            return made | {"learned": torch.nn.Parameter(torch.full((3,), float(fill)))}

        saved, present = make(1), make(0)
        self.save({"t": saved, "each": reprieve.per_rank(saved["float32"] + RANK)})
        addresses = [tensor.data_ptr() for tensor in present.values()]
        each = torch.zeros(2, 3)
        self.restore({"t": present, "each": reprieve.per_rank(each)})
        for name, tensor in saved.items():
            self.assertTrue(torch.equal(present[name], tensor), name)
        self.assertEqual([tensor.data_ptr() for tensor in present.values()], addresses)
        self.assertTrue((each == 1 + RANK).all())
        with reprieve.open(self.directory) as file:
            self.assertEqual((file["t/float32"].shape, file["t/float32"].dtype), ((2, 3), np.float32))
            self.assertEqual(file["t/bfloat16"][0, 0], 0x3F80)  # its bits

    def test_distributed(self):
        padded = torch.zeros(4, 3)
        padded[1:-1] = RANK + 1
        place = {"shape": (2 * SIZE, 3), "offset": (2 * RANK, 0), "ghost": (1, 0)}
        self.save({"u": reprieve.distributed(padded, **place)})
        other = torch.zeros(4, 3)
        self.restore({"u": reprieve.distributed(other, **place)})
        self.assertTrue(torch.equal(other, padded))

    def test_lists_and_generators(self):
        generator = torch.Generator().manual_seed(5)
        state = {"list": [torch.arange(3), {"a": torch.tensor(2.5)}], "rng": reprieve.per_rank(generator)}
        self.save(state)
        expected = torch.rand(4, generator=generator)
        other = torch.Generator()
        state = self.restore({"list": [], "rng": reprieve.per_rank(other)})
        self.assertTrue(torch.equal(state["list"][0], torch.arange(3)))
        self.assertEqual(state["list"][1]["a"].item(), 2.5)
        self.assertTrue(torch.equal(torch.rand(4, generator=other), expected))

    def test_tensors_without_memory_here(self):
        for value, text in (
            (torch.zeros(3, device="meta"), "meta"),
            (torch.eye(3).to_sparse(), "[Ss]parse"),
            (torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8), "QInt8"),
            (torch.zeros(3, dtype=torch.complex64).conj(), "conjugate"),
            (torch.nn.LazyLinear(3), "uninitialized"),
        ):
            self.refused(reprieve.UsageError, r"state\['x'\].*" + text, {"x": value})

    def test_another_tensor_in_its_place(self):
        def shorter(state):
            state["w"].data = torch.zeros(2)

        text = r"state\['w'\] has another .*copy_\(value\)"
        for change in (lambda state: state.update(w=state["w"] + 1), lambda state: state.update(w=3.0), shorter):
            self.refused_later(reprieve.UsageError, text, {"w": torch.zeros(3)}, change)


class Models(Case):
    def test_a_model_by_its_names(self):
        model, other = network(1), network(2)
        self.save({"model": model, "part": model[0].state_dict()})
        names = {f"model/{name}" for name in model.state_dict()} | {"part/weight", "part/bias"}
        with reprieve.open(self.directory) as file:
            self.assertEqual(set(file), names)
            np.testing.assert_array_equal(file["model/0.weight"], model[0].weight.detach().numpy())
        weight = other[2].weight
        self.restore({"model": other, "part": network(3)[0].state_dict()})
        for (name, expected), found in zip(model.state_dict().items(), other.state_dict().values()):
            self.assertTrue(torch.equal(found, expected), name)
        self.assertIs(other[2].weight, weight)

    def test_what_a_model_has_besides(self):
        class Counts(torch.nn.Linear):
            seen = 0

            def get_extra_state(self):
                return {"seen": self.seen, "by": {1: "one"}}

            def set_extra_state(self, state):
                self.seen, self.by = state["seen"], state["by"]

        model, other = Counts(2, 2), Counts(2, 2)
        model.seen = 7
        self.save({"model": reprieve.per_rank(model)})
        self.restore({"model": reprieve.per_rank(other)})
        self.assertEqual((other.seen, other.by), (7, {1: "one"}))
        self.assertTrue(torch.equal(other.weight, model.weight))

    def test_training_goes_on_to_the_same_bits(self):
        def make(kind, seed):
            model = network(seed)
            optimizer = kind(model.parameters(), lr=0.1)
            schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            return {"model": model, "optimizer": optimizer, "schedule": schedule}

        def train(state, steps):
            for _ in range(steps):
                state["optimizer"].zero_grad()
                state["model"](torch.linspace(-1, 1, 12).reshape(4, 3)).square().sum().backward()
                state["optimizer"].step()
                state["schedule"].step()

        kinds = [torch.optim.Adam, torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.AdamW]
        for kind in (*kinds, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)):
            self.fresh()
            state = make(kind, 1)
            train(state, 3)
            self.save(state)
            train(state, 3)
            other = self.restore(make(kind, 2))
            train(other, 3)
            for found, expected in zip(other["model"].state_dict().values(), state["model"].state_dict().values()):
                self.assertEqual(found.numpy().tobytes(), expected.numpy().tobytes())

    def test_a_parameter_that_is_replaced(self):
        def change(state):
            state["model"][0].weight = torch.nn.Parameter(torch.zeros(4, 3))

        text = r"state\['model'\]\['0.weight'\] has another"
        self.refused_later(reprieve.UsageError, text, {"model": network(1)}, change)

    def test_a_model_that_is_replaced(self):
        state, text = {"model": network(1)}, r"state\['model'\] is another model"
        self.refused_later(reprieve.UsageError, text, state, lambda _: state.update(model=network(2)))

    def test_what_an_optimizer_remembers_can_be_read(self):
        model = network(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        self.save({"optimizer": optimizer})
        with reprieve.open(self.directory) as file:
            stored = file["optimizer"].value
        self.assertEqual(stored["param_groups"][0]["lr"], 0.25)
        self.assertTrue(torch.equal(stored["state"][0]["momentum_buffer"], optimizer.state_dict()["state"][0]["momentum_buffer"]))
