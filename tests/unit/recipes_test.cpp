// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The recipes of apps/recipes say what the tree says: its version, its licence, and the packages that CMake looks for,
/// not older than CMake wants them.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "reprieve/version.hpp"
#include "support/tree.hpp"

namespace {

namespace fs = std::filesystem;
using reprieve::test::found_in;
using reprieve::test::kTree;
using reprieve::test::read_text;

const fs::path kRecipes = kTree / "apps/recipes";
const std::string kEasyBuild = "reprieve-" REPRIEVE_VERSION "-foss-2024a.eb";

bool says_word(const std::string& text, const std::string& word) {
  const std::regex pattern("(^|[^A-Za-z0-9_.-])" + word + "($|[^A-Za-z0-9_-])");
  return std::regex_search(text, pattern);
}

/// What CMakeLists.txt looks for, with the oldest version that it takes; empty where it names none.
std::map<std::string, std::string> packages_of_cmake(const std::string& text) {
  static const std::regex package(R"(find_package\((\w+)(?: ([0-9.]+))?)");
  static const std::regex module(R"(pkg_check_modules\((\w+)[^)\n]*?(?:>=([0-9.]+))?\))");
  std::map<std::string, std::string> packages;
  for (const auto* pattern : {&package, &module}) {
    for (std::sregex_iterator found(text.begin(), text.end(), *pattern); found != std::sregex_iterator(); ++found) {
      packages[(*found)[1]] = (*found)[2];
    }
  }
  packages.erase("Threads");  // of the C library
  packages.erase("GTest");    // for the tests, which no recipe builds
  return packages;
}

/// The same package in each of the other worlds; empty where it comes with something else, or is left out.
struct NamesElsewhere {
  std::string debian, spack, conda, easybuild, nix;
};
const std::map<std::string, NamesElsewhere> kNames{
    {"MPI", {"libopenmpi-dev", "mpi", "openmpi", "foss", "pkgs.openmpi"}},
    {"HDF5", {"libhdf5-openmpi-dev", "hdf5", "hdf5", "HDF5", "hdf5-mpi"}},
    {"nlohmann_json", {"nlohmann-json3-dev", "nlohmann-json", "nlohmann_json", "nlohmann_json", "pkgs.nlohmann_json"}},
    {"fmt", {"libfmt-dev", "fmt", "fmt", "fmt", "pkgs.fmt"}},
    {"CURL", {"libcurl4-openssl-dev", "curl", "libcurl", "cURL", "pkgs.curl"}},
    {"PkgConfig", {"pkgconf", "pkgconfig", "pkg-config", "pkgconf", "pkgs.pkg-config"}},
    {"xxhash", {"libxxhash-dev", "xxhash", "xxhash", "xxHash", "pkgs.xxHash"}},
    {"blosc", {"libblosc-dev", "c-blosc", "blosc", "Blosc", "pkgs.c-blosc"}},
    {"CLI11", {"libcli11-dev", "cli11", "cli11", "CLI11", "pkgs.cli11"}},
    {"ZLIB", {"zlib1g-dev", "zlib-api", "zlib", "zlib", "pkgs.zlib"}},
};

TEST(Recipes, NameThePackagesThatCMakeLooksFor) {
  const auto packages = packages_of_cmake(read_text(kTree / "CMakeLists.txt"));
  EXPECT_EQ(packages.size(), kNames.size());
  const std::string debian = read_text(kRecipes / "debian/control");
  const std::string spack = read_text(kRecipes / "spack/packages/reprieve/package.py");
  const std::string conda = read_text(kRecipes / "meta.yaml");
  const std::string easybuild = read_text(kRecipes / kEasyBuild);
  const std::string nix = read_text(kRecipes / "default.nix");
  for (const auto& [package, version] : packages) {
    ASSERT_TRUE(kNames.contains(package)) << "a new package of CMakeLists.txt: the recipes need it too: " << package;
    const NamesElsewhere& names = kNames.at(package);
    EXPECT_TRUE(says_word(debian.substr(0, debian.find("\nPackage:")), names.debian)) << names.debian;
    EXPECT_TRUE(says_word(nix, names.nix)) << names.nix;
    EXPECT_TRUE(names.easybuild.empty() || says_word(easybuild, names.easybuild)) << names.easybuild;
    const std::string in_spack = "depends_on(\"" + names.spack + (version.empty() ? "" : "@" + version + ":");
    EXPECT_NE(spack.find(in_spack), std::string::npos) << in_spack;
    const std::string in_conda = "- " + names.conda + (version.empty() || package == "MPI" ? "" : " >=" + version);
    EXPECT_NE(conda.find(in_conda), std::string::npos) << in_conda;
  }
}

TEST(Recipes, DebianBuildsWithPackagesOfTheList) {
  const std::string control = read_text(kRecipes / "debian/control");
  const std::string list = read_text(kTree / "apps/install-packages.sh");
  const std::size_t begin = control.find("Build-Depends:") + 14;
  const std::string depends = control.substr(begin, control.find("Standards-Version") - begin);
  static const std::regex name(R"((?:^|\n|,)\s*([a-z0-9][a-z0-9+.-]+))");
  const std::set<std::string> of_debian{"debhelper-compat", "dh-sequence-python3", "python3"};
  const auto packages = found_in(depends, name);
  for (const std::string& package : packages) {
    EXPECT_TRUE(of_debian.contains(package) || says_word(list, package)) << package;
  }
  EXPECT_GT(packages.size(), 15U);
}

TEST(Recipes, NameTheVersionOfTheHeaderAndTheLicence) {
  const std::string version = REPRIEVE_VERSION;
  const std::map<std::string, std::string> where{{"Dockerfile", "image.version=\"" + version + "\""},
                                                 {"reprieve.def", "version " + version + "\n"},
                                                 {"spack/packages/reprieve/package.py", "version(\"" + version + "\""},
                                                 {kEasyBuild, "version = '" + version + "'"},
                                                 {"meta.yaml", "version = \"" + version + "\""},
                                                 {"default.nix", "version = \"" + version + "\""},
                                                 {"debian/changelog", "reprieve (" + version + "-"}};
  for (const auto& [file, words] : where) {
    const std::string text = read_text(kRecipes / file);
    EXPECT_NE(text.find(words), std::string::npos) << file << " does not say " << words;
    if (file != "debian/changelog") {
      // The first line has the licence of the recipe itself; this is what it says of Reprieve.
      EXPECT_NE(text.substr(text.find('\n')).find("BSD-3-Clause"), std::string::npos) << file;
    }
  }
  EXPECT_NE(read_text(kRecipes / "debian/copyright").find("License: BSD-3-Clause\n"), std::string::npos);
  const std::string control = read_text(kRecipes / "debian/control");
  const std::string library = "Package: libreprieve" + version.substr(0, version.rfind('.')) + "\n";
  EXPECT_NE(control.find(library), std::string::npos) << "the package is named after the SONAME: " << library;
}

TEST(Recipes, AMissingWordIsNoticed) {
  EXPECT_TRUE(says_word("a, zlib1g-dev,", "zlib1g-dev"));
  EXPECT_FALSE(says_word("libzlib1g-dev", "zlib1g-dev"));
  EXPECT_FALSE(says_word("hdf5-tools", "hdf5"));
  EXPECT_EQ(packages_of_cmake("find_package(A 1.2 REQUIRED)\npkg_check_modules(b IMPORTED_TARGET libb>=2.1)\n"),
            (std::map<std::string, std::string>{{"A", "1.2"}, {"b", "2.1"}}));
}

}  // namespace
