# SPDX-License-Identifier: BSD-3-Clause
"""For Spack 0.2x. The addresses are placeholders: build from a clone, by `spack develop --path CLONE reprieve@1.0.0`."""

from spack.package import *


class Reprieve(CMakePackage):
    """Preemption-safe checkpoints for MPI programs, in one HDF5 file."""

    homepage = "https://reprieve.invalid"
    git = "https://reprieve.invalid/reprieve.git"

    license("BSD-3-Clause")

    version("1.0.0", tag="v1.0.0")

    variant("fortran", default=True, description="Build the Fortran module")
    variant("python", default=False, description="Make the Python module")
    variant("tools", default=True, description="Build the programs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3.1:")
    depends_on("hdf5@1.10.5: +mpi")
    depends_on("nlohmann-json@3.10:")
    depends_on("fmt@9:")
    depends_on("curl@7.87:")
    depends_on("xxhash")
    depends_on("c-blosc")
    depends_on("cli11@2.1:", when="+tools")
    depends_on("zlib-api", when="+tools")
    depends_on("py-numpy", type="run", when="+python")
    depends_on("py-mpi4py", type="run", when="+python")

    generator("ninja")
    conflicts("%gcc@:11", msg="Reprieve is written in C++20")

    def cmake_args(self):
        return [
            self.define_from_variant("REPRIEVE_FORTRAN", "fortran"),
            self.define_from_variant("REPRIEVE_PYTHON_MODULE", "python"),
            self.define_from_variant("REPRIEVE_BUILD_APPS", "tools"),
            self.define("REPRIEVE_BUILD_TESTS", False),
            self.define("REPRIEVE_UNITY", True),
        ]
