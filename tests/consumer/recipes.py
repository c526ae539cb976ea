#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""recipes.py RECIPES: loads the recipes of apps/recipes that are Python or YAML, without the programs that they are for.

Spack is replaced by a module that records the calls. Code 77: there is no module for YAML (python3-yaml).
"""

import collections
import pathlib
import re
import sys
import types

try:
    import yaml
except ImportError:
    print("python3-yaml is not installed")
    sys.exit(77)

recipes = pathlib.Path(sys.argv[1])

# Spack: every word that the recipe takes from it is one of these.
calls = collections.Counter()
spack = types.ModuleType("spack.package")


class CMakePackage:
    """What the recipe calls of its base."""

    def define(self, name, value):
        return f"-D{name}={value}"

    def define_from_variant(self, name, variant):
        assert variant in variants, variant
        return f"-D{name}={variant}"


variants = set()
spack.CMakePackage = CMakePackage
for word in ("license", "version", "depends_on", "generator", "conflicts"):
    setattr(spack, word, lambda *_, word=word, **__: calls.update([word]))
spack.variant = lambda name, **_: variants.add(name)
sys.modules["spack"] = types.ModuleType("spack")
sys.modules["spack.package"] = spack
names = {}
exec((recipes / "spack/packages/reprieve/package.py").read_text(), names)  # pylint: disable=exec-used
options = [option[2:].split("=")[0] for option in names["Reprieve"]().cmake_args()]
assert calls["depends_on"] >= 15 and calls["version"] == 1, calls

# The options of Reprieve that the recipes set are options of its CMakeLists.txt.
cmake = "".join((recipes / "../.." / file).read_text() for file in ("CMakeLists.txt", "src/package/unity.cmake"))
(easyconfig,) = recipes.glob("reprieve-*.eb")
for file in (easyconfig, *(recipes / name for name in ("meta.yaml", "default.nix", "debian/rules"))):
    options += re.findall(r"-D ?(REPRIEVE_\w+)=", file.read_text())
assert len(options) > 15, options
for option in options:
    assert not option.startswith("REPRIEVE_") or re.search(rf"\({option}\b", cmake), f"CMakeLists.txt has no {option}"
assert "(REPRIEVE_NO_SUCH_OPTION" not in cmake

easybuild = {"SOURCE_TAR_GZ": "%(name)s-%(version)s.tar.gz"}
exec(easyconfig.read_text(), easybuild)  # pylint: disable=exec-used
assert {"easyblock", "name", "version", "homepage", "description", "toolchain", "moduleclass"} <= easybuild.keys()

conda = re.sub(r"{%.*?%}", "", (recipes / "meta.yaml").read_text())
conda = yaml.safe_load(re.sub(r"{{.*?}}", "word", conda))
assert conda["package"]["name"] == "reprieve" and len(conda["requirements"]["host"]) >= 8, conda
assert yaml.safe_load((recipes / "spack/repo.yaml").read_text())["repo"]["namespace"] == "reprieve"
print("recipes: Spack, EasyBuild, conda: loaded")
