# This recipe was never run.
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Lockstep(CMakePackage, CudaPackage):
    """Keeps N replicas of a computation in step."""

    license("Apache-2.0", checked_by="lockstep")
    maintainers("lockstep")

    # The sources that this recipe lies in.
    version("0.1.0-tree", git=f"file://{os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))}")

    variant("shared", default=True, description="Build a shared library")
    variant("mpi", default=True, description="The engine mpi between processes")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type=("build", "run"))
    depends_on("nlohmann-json", type="build")
    depends_on("highway")
    depends_on("hwloc@2.9:")
    depends_on("openblas")
    depends_on("zlib-api")
    depends_on("mpi@3:", when="+mpi")
    depends_on("cuda@13:", when="+cuda")

    conflicts("%gcc@:11", msg="lockstep needs C++20 as of g++ 12")
    conflicts("cuda_arch=none", when="+cuda", msg="say for which GPUs: cuda_arch=90")

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define("LOCKSTEP_CUDA", "ON" if "+cuda" in self.spec else "OFF"),
            self.define("LOCKSTEP_MPI", "ON" if "+mpi" in self.spec else "OFF"),
            self.define("LOCKSTEP_GLOO", "OFF"),
            self.define("LOCKSTEP_FORMATS", "OFF"),
            self.define("LOCKSTEP_BUILD_TESTS", False),
            self.define("LOCKSTEP_BUILD_BENCHMARKS", False),
            self.define("LOCKSTEP_BUILD_EXAMPLES", False),
        ]
        if "+cuda" in self.spec:
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args
