# SPDX-License-Identifier: BSD-3-Clause
# For Nix, from a clone: nix-build apps/recipes
{ pkgs ? import <nixpkgs> { } }:

let
  hdf5-mpi = pkgs.hdf5.override { mpiSupport = true; mpi = pkgs.openmpi; cppSupport = false; };
in
pkgs.stdenv.mkDerivation {
  pname = "reprieve";
  version = "1.0.0";
  src = pkgs.lib.cleanSource ../..;

  nativeBuildInputs = [ pkgs.cmake pkgs.ninja pkgs.pkg-config ];
  buildInputs = [
    hdf5-mpi
    pkgs.nlohmann_json
    pkgs.fmt
    pkgs.curl
    pkgs.xxHash
    pkgs.c-blosc
    pkgs.cli11
    pkgs.zlib
  ];
  propagatedBuildInputs = [ pkgs.openmpi ];

  cmakeFlags = [
    "-DREPRIEVE_BUILD_TESTS=OFF"
    "-DREPRIEVE_UNITY=ON"
    "-DREPRIEVE_FORTRAN=OFF"
    "-DREPRIEVE_PYTHON_MODULE=OFF"
    # nixpkgs gives absolute folders, which the files for pkg-config and modules do not expect.
    "-DCMAKE_INSTALL_LIBDIR=lib"
    "-DCMAKE_INSTALL_INCLUDEDIR=include"
    "-DCMAKE_INSTALL_BINDIR=bin"
    "-DCMAKE_INSTALL_MANDIR=share/man"
  ];

  # Loaded when a metadata server is asked, not linked: nothing else would lead the loader to it.
  postFixup = ''
    patchelf --add-rpath ${pkgs.lib.getLib pkgs.curl}/lib $out/lib/libreprieve.so
  '';

  meta = {
    description = "Preemption-safe checkpoints for MPI programs";
    license = pkgs.lib.licenses.bsd3;  # BSD-3-Clause
    platforms = pkgs.lib.platforms.linux;
  };
}
