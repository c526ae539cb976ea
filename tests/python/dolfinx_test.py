# SPDX-License-Identifier: BSD-3-Clause
"""Functions of DOLFINx in the state. Exit code 77 by main.py: it is not installed (apps/install-packages.sh petsc)."""

import numpy as np
import reprieve
import reprieve.dolfinx
import ufl
from dolfinx import fem, mesh
from support import COMM, QUIET, RANK, SIZE, Case


def shuffled(comm):
    """Tetrahedra as a program for meshes may write them: points, cells, and the points of a cell in no order."""
    rng = np.random.default_rng(5)
    n = 3
    i, j, k = (each.ravel() for each in np.meshgrid(*[np.arange(n - 1)] * 3, indexing="ij"))
    corner = {"%d%d%d" % (a, b, c): ((i + a) * n + j + b) * n + k + c for a in (0, 1) for b in (0, 1) for c in (0, 1)}
    paths = ["100 110", "100 101", "010 110", "010 011", "001 101", "001 011"]  # from 000 to 111: Kuhn's six tetrahedra
    cells = np.concatenate([np.stack([corner[p] for p in f"000 {path} 111".split()], axis=1) for path in paths])
    cells = rng.permuted(rng.permutation(cells), axis=1)
    numbers = rng.permutation(n**3)
    points = np.zeros((n**3, 3))
    points[numbers] = np.stack(np.meshgrid(*[np.linspace(0, 1, n)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    try:
        from basix.ufl import element

        domain = ufl.Mesh(element("Lagrange", "tetrahedron", 1, shape=(3,)))
    except ImportError:  # before 0.6
        domain = ufl.Mesh(ufl.VectorElement("Lagrange", ufl.Cell("tetrahedron"), 1))
    mine = slice(None) if comm.rank == 0 else slice(0)  # rank 0 reads the file
    return mesh.create_mesh(comm, numbers[cells][mine].astype(np.int64), points[mine], domain)


MESHES = {
    "shuffled": shuffled,
    "interval": lambda comm: mesh.create_unit_interval(comm, 11),
    "triangles": lambda comm: mesh.create_unit_square(comm, 5, 4),
    "quadrilaterals": lambda comm: mesh.create_unit_square(comm, 4, 5, mesh.CellType.quadrilateral),
    "tetrahedra": lambda comm: mesh.create_unit_cube(comm, 2, 3, 2),
    "hexahedra": lambda comm: mesh.create_unit_cube(comm, 2, 2, 3, mesh.CellType.hexahedron),
}


def function(domain, family="Lagrange", degree=1, values=1):
    if hasattr(fem, "functionspace"):  # from 0.8 on
        return fem.Function(fem.functionspace(domain, (family, degree) if values == 1 else (family, degree, (values,))))
    make = fem.FunctionSpace if values == 1 else fem.VectorFunctionSpace
    return fem.Function(make(domain, (family, degree)))


def on_triangles(family="Lagrange", degree=1, values=1):
    return function(MESHES["triangles"](COMM), family, degree, values)


def waves(x):
    return np.sin(3 * x[0]) + np.cos(4 * x[1]) * (1 + x[2])


def expected(u):
    """What `waves` gives in its place, of a rank."""
    other = fem.Function(u.function_space)
    fill(other)
    return other.x.array


def fill(u):
    values = u.function_space.dofmap.index_map_bs
    u.interpolate(waves if values == 1 else lambda x: np.stack([waves(x) * (i + 1) for i in range(values)]))
    u.x.scatter_forward()


class Functions(Case):
    def open(self, comm, u):
        return reprieve.Handler(comm, self.directory, {"u": reprieve.dolfinx.function(u, units="m")}, settings=QUIET)

    def save_on(self, comm, u):
        with self.open(comm, u) as handler:
            for _ in handler.steps(1):
                fill(u)  # after it was registered

    def check(self, make):
        """Saves on two ranks, restores on other numbers of them, with all ghosts."""

        def restore(comm):
            u = make(comm)
            with self.open(comm, u) as handler:
                self.assertIsNotNone(handler.restored_from)
            np.testing.assert_allclose(u.x.array, expected(u), rtol=0, atol=1e-14)

        self.fresh()
        self.on(min(2, SIZE), lambda comm: self.save_on(comm, make(comm)))
        for ranks in {1, 2, SIZE}:
            self.on(ranks, restore)

    def test_lagrange_elements_of_every_cell(self):
        for name, domain in MESHES.items():
            for family, degree in (("Lagrange", 1), ("Lagrange", 2), ("Lagrange", 4), ("DG", 0), ("DG", 1)):
                with self.subTest(name=name, family=family, degree=degree):
                    self.check(lambda comm: function(domain(comm), family, degree))

    def test_several_values_per_point(self):
        self.check(lambda comm: function(MESHES["triangles"](comm), "Lagrange", 2, 2))

    def test_fewer_unknowns_than_ranks(self):
        self.check(lambda comm: function(mesh.create_unit_interval(comm, 2), "DG", 0))

    def test_a_file_does_not_depend_on_the_ranks(self):
        found = []
        for ranks in (1, SIZE):
            self.fresh()
            self.on(ranks, lambda comm: self.save_on(comm, function(MESHES["tetrahedra"](comm), "Lagrange", 3)))
            with reprieve.open(self.directory) as file:
                found.append(file["u"][...])
        np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-14)

    def test_the_same_bits_on_the_same_ranks_also_with_functions_of_a_restore(self):
        rng = np.random.default_rng(RANK)
        saved = on_triangles(degree=2)
        seen = []

        def change(_):
            saved.x.array[:] = rng.random(len(saved.x.array))
            saved.x.scatter_forward()

        self.save_changed({"t": 0.5, "heat": reprieve.dolfinx.function(saved)}, change)
        u = fem.Function(saved.function_space)
        state = reprieve.State(t=0.0)
        state.heat = reprieve.dolfinx.function(u)
        self.restore(state, when_values_restored=lambda: seen.append(state.t))
        self.assertEqual(seen, [0.5])
        np.testing.assert_array_equal(u.x.array, saved.x.array)

    def test_one_that_the_checkpoint_does_not_have(self):
        self.save({"t": 0.5})
        u = on_triangles()
        state = {"t": 0.0, "u": reprieve.dolfinx.function(u, may_be_missing=True)}
        fill(u)
        self.restore(state)
        np.testing.assert_array_equal(u.x.array, expected(u))

    def test_an_error_of_another_array_on_one_rank_reaches_all(self):
        """Also of one that comes before it: the others exchange their elements, and wait for that rank."""
        failing = []
        mine = np.zeros(1)

        def find():
            if failing and RANK == SIZE - 1:
                raise ValueError("no array today")
            return mine

        before = reprieve.distributed(find, shape=(SIZE,), offset=(RANK,), dtype=float)
        state = {"before": before, "u": reprieve.dolfinx.function(on_triangles())}
        self.save_changed(state, lambda _: None)
        self.refused(reprieve.Error, "no array today", state, when_values_restored=lambda: failing.append(True))
        failing.clear()
        self.refused_later(reprieve.Error, "no array today", state, lambda _: failing.append(True), steps=3)

    def test_an_error_in_a_restore_on_one_rank_reaches_all(self):
        def load(_):
            if RANK == SIZE - 1:
                raise ValueError("nothing to load")

        state = {"before": reprieve.custom(lambda: b"", load), "u": reprieve.dolfinx.function(on_triangles())}
        self.save_changed(state, lambda _: None)
        self.refused_later(Exception, "nothing to load", state, lambda _: None, steps=3)

    def test_another_mesh_is_an_error(self):
        self.save_on(COMM, on_triangles())
        domain = mesh.create_unit_square(COMM, 4, 5)  # has as many vertices
        for other in (function(domain), on_triangles("DG", 0)):
            self.refused(reprieve.MismatchError, "numbering of u", {"u": reprieve.dolfinx.function(other)})

    def test_a_part_of_a_function(self):
        u = on_triangles(values=2)
        with self.assertRaisesRegex(reprieve.UsageError, "a part of a function"):
            reprieve.dolfinx.function(u.sub(0))
        reprieve.dolfinx.function(u.sub(0).collapse())

    def test_elements_with_an_orientation_are_refused(self):
        u = function(MESHES["tetrahedra"](COMM), "N1curl", 1)
        with self.assertRaisesRegex(reprieve.UsageError, "Use Lagrange elements"):
            reprieve.dolfinx.function(u)
