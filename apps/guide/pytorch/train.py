#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small network of PyTorch on digits, on several ranks. With Reprieve: the lines that end with # +

usage: mpirun -n 2 train.py DIGITS [EPOCHS]      DIGITS: rows of 64 pixels and a label, as in configs/digits.csv.gz
"""

import hashlib
import itertools
import signal  # +
import sys

import numpy as np
import reprieve  # +
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

reprieve.watch_signals()  # +
from mpi4py import MPI

comm = MPI.COMM_WORLD
torch.set_num_threads(1)  # a rank has one core
BATCH = 64  # of all ranks together


def load(path):
    rows = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
    return rows[:, :-1] / 16, rows[:, -1].long()


def batches_from(loader, step):
    """This rank's batches of all epochs, from a step on: the same ones, whenever the training was interrupted."""
    for epoch in itertools.count(step // len(loader)):
        loader.sampler.set_epoch(epoch)
        loader.generator.manual_seed(epoch)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # + which would end the workers, and so the training
        batches = iter(loader)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])  # +
        yield from itertools.islice(batches, step % len(loader), None)
        step = 0


def average_gradients(model):
    """Each rank has the gradients of its part of the batch. Afterwards all have the same."""
    for parameter in model.parameters():
        comm.Allreduce(MPI.IN_PLACE, parameter.grad.numpy())
        parameter.grad /= comm.size


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return right


def fingerprint(tensors):
    """Equal for equal bits."""
    return hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in tensors)).hexdigest()[:16]


def main():
    images, labels = load(sys.argv[1])
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data, comm.size, comm.rank, drop_last=True)
    loader = DataLoader(
        data,
        BATCH // comm.size,
        sampler=sampler,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
        generator=torch.Generator(),
    )

    torch.manual_seed(0)  # all ranks begin with the same weights
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(100, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3 * len(loader), gamma=0.5)
    torch.manual_seed(1000 + comm.rank)  # each rank drops other neurons

    state = {  # +
        "model": model,  # +
        "optimizer": optimizer,  # +
        "schedule": schedule,  # +
        "dropout": reprieve.per_rank(torch.default_generator),  # +
    }  # +
    with reprieve.Handler(comm, "checkpoints", state) as handler:  # +
        batches = batches_from(loader, handler.completed_steps)  # + the number of steps is the position in the data
        for step in handler.steps(epochs * len(loader)):  # +
            mine, expected = next(batches)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(mine), expected).backward()
            average_gradients(model)
            optimizer.step()
            schedule.step()

    if comm.rank == 0:
        print("accuracy %.4f, weights %s" % (accuracy(model, images, labels), fingerprint(model.parameters())))


main()
