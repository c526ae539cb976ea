# SPDX-License-Identifier: BSD-3-Clause
"""The loop: notices, ways to leave, callbacks of the program, exceptions in the body."""

import contextlib
import os
import signal
import time
import warnings

import numpy as np
import reprieve
from support import COMM, RANK, SIZE, Case, of_last

STEPS = 60


def total(steps):
    return steps * (steps - 1) / 2


class Loops(Case):
    def run_steps(self, handler, state, signal_at=None):
        for step in handler.steps(STEPS):
            if step == signal_at and RANK == SIZE - 1:
                os.kill(os.getpid(), signal.SIGTERM)
            state["sum"] += step
            time.sleep(0.002)

    def test_preempted_and_resumed(self):
        state = {"sum": 0.0}
        handler = self.handler(state, exit="raise")
        with self.assertRaises(SystemExit) as caught, handler:
            self.run_steps(handler, state, 10)
        self.assertIsInstance(caught.exception, reprieve.Preempted)
        self.assertEqual((caught.exception.code, handler.exit_code), (42, 42))
        state = {"sum": 0.0}
        with self.handler(state) as handler:
            saved = handler.restored_from
            self.assertEqual((saved.reason, saved.world_size), ("preemption", SIZE))
            self.assertEqual(saved.completed_steps, handler.completed_steps)
            self.assertEqual(state["sum"], total(saved.completed_steps))
            self.run_steps(handler, state)
            self.assertFalse(handler.preempted)
            self.assertIsNone(handler.notice)
        self.assertEqual(state["sum"], total(STEPS))
        self.assertEqual(handler.exit_code, 0)

    def test_return_when_saved(self):
        state = {"sum": 0.0}
        made = 0
        with self.handler(state, return_when_saved=True) as handler:
            for step in handler.steps(STEPS):
                if handler.preempted:
                    break
                if step == 5 and RANK == 0:
                    os.kill(os.getpid(), signal.SIGUSR1)
                state["sum"] += step
                made = step + 1
                time.sleep(0.002)
            self.assertEqual((handler.notice.source, handler.notice.rank), ("signal SIGUSR1", 0))
            self.assertEqual(handler.last_save.number, made)
            self.assertGreater(handler.last_save.size_bytes, 0)
        self.assertEqual(handler.exit_code, 42)
        with self.handler(other := {"sum": 0.0}):
            self.assertEqual(other, state)

    def test_watcher_on_a_thread(self):
        asked = []

        def watcher():
            asked.append(1)
            return ("the queue is full", 500.0) if RANK == 0 and len(asked) > 1 else False

        settings = {"termination": {"poll_interval_s": 0.005}}
        with self.handler({"sum": 0.0}, settings, watcher=watcher, return_when_saved=True) as handler:
            for _ in handler.steps():
                if handler.preempted:
                    break
                time.sleep(0.002)
            self.assertEqual(handler.notice.message, "the queue is full")
            self.assertLess(handler.notice.time_left_s, 500)

    def test_own_count_and_files(self):
        state = {"mine": 0}

        def files(directory, number, is_chief):
            if is_chief:
                with open(os.path.join(directory, "note"), "w") as file:
                    file.write(str(number))

        settings = {"termination.save_every_steps": 100}
        with self.handler(state, settings, step=lambda: state["mine"], save_files=files) as handler:
            for _ in handler.steps(7):
                state["mine"] += 50
            self.assertIn(handler.last_save.number, (200, 300))
        state = {"mine": 0}
        with self.handler(state, step=lambda: state["mine"]) as handler:
            self.assertEqual((state["mine"], handler.already_finished), (350, 7))
            self.assertEqual((handler.restored_from.files_directory / "note").read_text(), "350")

    def test_after_commit_is_called_on_rank_0_and_its_error_is_a_warning(self):
        copied = []

        def copy(path):
            copied.append(os.path.basename(path))
            self.assertTrue(os.path.exists(path))
            raise OSError("no network")

        with self.handler({"x": 1.0}, after_commit=copy) as handler:
            for _ in handler.steps(3):
                handler.request_checkpoint()
        expected = sorted(os.listdir(self.directory)) if RANK == 0 else []
        self.assertEqual(copied, [name for name in expected if name.endswith(".h5")])
        self.assertEqual(len(copied) > 1, RANK == 0)
        with self.manager({"x": 1.0}, after_commit=copy) as manager:
            manager.save(9)
        self.assertEqual(copied[-1:], ["ckpt-9.h5"] if RANK == 0 else [])

    def test_scopes(self):
        with self.handler({"x": 1.0}) as handler:
            with handler.scope(save_at_end=True):
                handler.request_checkpoint()
                handler.begin_phase()
                handler.boundary()
            with handler.scope():
                handler.boundary()
            handler.finish()
        self.assertEqual(handler.exit_code, 0)

    def test_an_exception_leaves_a_scope(self):
        """The others hear of it, also if the program continues after the scope."""
        text = "handler ended" if RANK == SIZE - 1 else "ValueError: in the scope"
        with self.assertRaisesRegex(of_last(reprieve.UsageError), text):
            with self.handler({"x": 1.0}) as handler:
                with contextlib.suppress(ValueError), handler.scope(save_at_end=True):
                    if RANK == SIZE - 1:
                        raise ValueError("in the scope")
                    handler.boundary()
                handler.boundary()

    def test_a_scope_that_is_open_at_the_end(self):
        with self.assertRaises(reprieve.Preempted) as caught:
            with self.handler({"x": 1.0}, exit="raise") as handler:
                scope = handler.scope(save_at_end=True)
                scope.__enter__()
                os.kill(os.getpid(), signal.SIGTERM)
                for _ in range(3):
                    handler.boundary()
        self.assertEqual((caught.exception.code, handler.exit_code), (42, 42))
        self.assertIsNone(handler._handle.value)

    def test_a_watcher_without_news(self):
        settings = {"termination": {"poll_interval_s": 0.001}}
        with self.handler({"x": 1.0}, settings, watcher=lambda: (False, None)) as handler:
            for _ in handler.steps(20):
                time.sleep(0.002)
            self.assertFalse(handler.preempted)

    def test_a_finished_run(self):
        with self.handler({"x": 1.0}) as handler:
            self.assertIsNone(handler.already_finished)
            for _ in handler.steps(3):
                handler.request_checkpoint()
            handler.boundary()
        with self.handler({"x": 1.0}) as handler:
            self.assertEqual(handler.restored_from.number, 3)
            self.assertEqual(list(handler.steps(3)), [])

    def test_background_saves(self):
        state = {"w": np.zeros(100_000)}
        with self.handler(state, {"checkpoints": {"background": True}}) as handler:
            for step in handler.steps(4):
                state["w"][:] = step + 1
                handler.request_checkpoint()
        state = {"w": np.zeros(100_000)}
        with self.handler(state) as handler:
            self.assertEqual(handler.restored_from.number, 4)
            self.assertTrue((state["w"] == 4).all())

    def test_a_signal_of_the_own_program_raises_keyboard_interrupt(self):
        reprieve.unwatch_signals()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.handler({"x": 1.0}, {"termination.signals": ["SIGUSR1"]}) as handler:
                with self.assertRaises(KeyboardInterrupt):
                    for _ in handler.steps(1):
                        os.kill(os.getpid(), signal.SIGINT)
                        time.sleep(1)
                self.assertFalse(handler.preempted)
        finally:
            signal.signal(signal.SIGINT, before)
            reprieve.watch_signals()


class Failures(Case):
    def test_an_exception_of_one_rank_reaches_all(self):
        with self.assertRaises(of_last(ZeroDivisionError)) as caught:
            with self.handler({"x": 1.0}) as handler:
                for step in handler.steps(100_000):
                    if RANK == SIZE - 1 and step == 3:
                        1 // 0
        if RANK < SIZE - 1:
            self.assertRegex(str(caught.exception), "ZeroDivisionError: integer division")
            self.assertEqual(caught.exception.origin_rank, SIZE - 1)
        self.assertEqual(handler.exit_code, 0)

    def test_fail(self):
        with self.assertRaisesRegex(reprieve.ClusterError, "no more food"):
            with self.handler({"x": 1.0}) as handler:
                for step in handler.steps(100_000):
                    if RANK == 0 and step == 3:
                        handler.fail("no more food")

    def test_exceptions_in_callbacks_are_carried_over(self):
        def find():
            if ready and RANK == SIZE - 1:
                raise KeyError("lost")
            return array

        ready, array = [], np.zeros(1)
        where = {"shape": (SIZE,), "offset": (RANK,), "dtype": float}
        with self.assertRaisesRegex(reprieve.ClusterError, "KeyError: 'lost'") as caught:
            with self.handler({"u": reprieve.distributed(find, **where)}) as handler:
                for _ in handler.steps(2):
                    ready.append(True)
                    handler.request_checkpoint()
        self.assertEqual(isinstance(caught.exception.__cause__, KeyError), RANK == SIZE - 1)

    def test_exceptions_of_a_watcher_and_a_count_are_not_lost(self):
        def fails():
            raise RuntimeError("cannot ask")

        settings = {"termination": {"poll_interval_s": 0.005}}
        for function in ("watcher", "step"):
            self.fresh()
            mine = {function: fails if RANK == SIZE - 1 else lambda: 0}
            with self.assertRaisesRegex(of_last(RuntimeError), "cannot ask"):
                with self.handler({"x": 1.0}, settings, **mine) as handler:
                    for _ in handler.steps(100_000):
                        time.sleep(0.001)
                        handler.request_checkpoint()

    def test_a_forked_process_closes_nothing(self):
        with self.handler({"x": 1.0}) as handler:
            for _ in handler.steps(2):
                child = os.fork()
                if child == 0:
                    handler.__exit__(None, None, None)
                    handler.close()
                    os._exit(5)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 5)
                handler.request_checkpoint()

    def test_an_array_in_the_place_of_another(self):
        def start():
            return {"w": np.zeros(3), "own": reprieve.per_rank(np.full(2, RANK))}

        def change(state):
            state["w"] = state["w"] + 1
            state["own"].value = state["own"].value + 1

        self.save_changed(start(), change, steps=3)
        restored = self.restore(start())
        self.assertEqual(list(restored["w"]), [3, 3, 3])
        self.assertEqual(list(restored["own"].value), [RANK + 3] * 2)
        self.fresh()
        text = r"state\['w'\] has another shape, type or memory"
        self.refused_later(reprieve.UsageError, text, start(), lambda state: state.update(w=np.zeros(4)))

    def test_names_that_are_bound_again(self):
        """As attributes they are the state."""

        def start():
            u = np.zeros((3, 2))
            values = {"order": np.arange(5), "sum": 0.0, "parts": {"n": 1}}
            grid = reprieve.distributed(u, shape=(SIZE, 2), offset=(RANK, 0), ghost=(1, 0))
            return reprieve.State(values, u=grid, mine=reprieve.per_rank(np.zeros(2)))

        state, new, orders = start(), np.zeros((3, 2)), np.random.default_rng(1)
        with self.handler(state) as handler:
            for step in handler.steps(7):
                new[1] = state.u[1] + step + RANK
                state.u, new = new, state.u
                state.order = orders.permutation(5)
                state.mine = state.mine + RANK
                state.sum += float(state.order[0])
                handler.state.parts.n += 1
            handler.request_checkpoint()
            handler.boundary()
        restored = start()
        with self.handler(restored) as handler:
            self.assertEqual(handler.completed_steps, 7)
        for name in ("order", "mine", "sum"):
            self.assertEqual(np.asarray(getattr(restored, name)).tolist(), np.asarray(getattr(state, name)).tolist())
        self.assertEqual(restored.u[1].tolist(), state.u[1].tolist())
        self.assertEqual(restored.u[1].tolist(), [21 + 7 * RANK] * 2)
        self.assertEqual(restored.parts.n, 8)
        with self.assertRaisesRegex(AttributeError, "there is no 'other' in the state"):
            state.other

    def test_an_array_that_the_program_has_lost(self):
        order = np.arange(5)
        state = {"order": order, "alone": np.zeros(3), "named": np.zeros(2)}
        named = state["named"]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with self.handler(state) as handler:
                for step in handler.steps(4):
                    state["alone"] += named.sum()
                    if step > 0:
                        order = order + 1
        told = [str(each.message) for each in caught if issubclass(each.category, RuntimeWarning)]
        self.assertEqual(len(told), 1 if RANK == 0 else 0, told)
        if RANK == 0:
            self.assertRegex(told[0], r"state\['order'\]: only the state still refers .*reprieve.State")

    def test_a_new_key(self):
        text = r"state\['a'\] has 2 entries"
        self.refused_later(reprieve.UsageError, text, {"a": {"x": 1}}, lambda state: state["a"].update(y=2))

    def test_a_resilient_body(self):  # deaths: tests/e2e/resilient_test.cpp
        sizes = []
        spares = 1 if SIZE > 1 else 0
        worked = reprieve.run_resilient(COMM, lambda ranks: sizes.append(ranks.allreduce(1)), spare_ranks=spares)
        self.assertEqual(worked, RANK < SIZE - spares)
        self.assertEqual(sizes, [SIZE - spares] if worked else [])

        def fail(ranks):
            raise ValueError("the mesh is empty")

        with self.assertRaisesRegex(reprieve.ClusterError, "ValueError: the mesh is empty"):
            reprieve.run_resilient(COMM, fail)
        with self.assertRaisesRegex(reprieve.UsageError, "leave 0 to work"):
            reprieve.run_resilient(COMM, fail, spare_ranks=SIZE)

    def test_after_the_end(self):
        with self.handler({"x": 1.0}) as handler:
            pass
        handler.close()
        for use in (handler.boundary, lambda: list(handler.steps(1)), lambda: handler.preempted):
            with self.assertRaisesRegex(reprieve.UsageError, "closed"):
                use()
        COMM.Barrier()
