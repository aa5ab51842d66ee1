import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt


class LockstepConan(ConanFile):
    name = "lockstep"
    description = "Keeps N replicas of a computation in step"
    license = "Apache-2.0"
    topics = ("distributed", "collectives", "cuda", "training")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "cuda": [True, False],
        "mpi": [True, False],
        "gloo": [True, False],
    }
    default_options = {"shared": False, "cuda": False, "mpi": False, "gloo": False}

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "..", "..", "CMakeLists.txt"))
        self.version = re.search(r"project\(lockstep VERSION ([0-9.]+)", text).group(1)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in (
            "CMakeLists.txt", "LICENSE", "README.md", ".github/CHANGELOG.md", "cmake/*", "cuda/*", "include/*",
            "src/*", "packaging/*", "benchmarks/README.md", "tests/hardware/README.md", "tests/vgpu/README.md",
        ):
            copy(self, pattern, root, self.export_sources_folder)

    def validate(self):
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        packages = ["libhwloc-dev", "libhwy-dev", "libopenblas-dev", "nlohmann-json3-dev", "pkg-config", "zlib1g-dev"]
        if self.options.mpi:
            packages.append("libopenmpi-dev")
        if self.options.gloo:
            packages.append("libgloo-dev")
        Apt(self).install(packages)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("CUDA", "MPI", "GLOO"):
            toolchain.cache_variables[f"LOCKSTEP_{part}"] = "ON" if self.options.get_safe(part.lower()) else "OFF"
        for part in ("TESTS", "BENCHMARKS", "EXAMPLES"):
            toolchain.cache_variables[f"LOCKSTEP_BUILD_{part}"] = False
        toolchain.cache_variables["LOCKSTEP_FORMATS"] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The package's own lockstep-config.cmake has the components and says what is missing.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "lockstep")]
        # For other generators.
        self.cpp_info.libs = ["lockstep"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["hwy", "hwloc", "z", "pthread", "dl"]
