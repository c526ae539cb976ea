#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What packages.sh does inside of the new Debian, as a user would: see there.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none \
  PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  PRTE_MCA_rmaps_default_mapping_policy=:OVERSUBSCRIBE PRTE_MCA_hwloc_default_binding_policy=none
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CXX CC  # of the machine around it

apt-get install -q -y --no-install-recommends /packages/*.deb
reprieve --version
reprieve --help >/dev/null
reprieve-heat --grid 8,8,8 --steps 20 --progress 0
mpirun -n 2 python3 -c 'import reprieve; from mpi4py import MPI
with reprieve.Handler(MPI.COMM_WORLD, "/tmp/python", {"n": 0}) as h: h.request_checkpoint(); h.boundary()'
python3 -c 'import reprieve; reprieve.open("/tmp/python").verify()'
man reprieve | head -n 5
for way in cmake pkg-config; do
  bash /consumer/try.sh $way /usr "/tmp/$way"
done
apt-get remove -q -y libreprieve0.1
[ -z "$(dpkg-query -W -f '${binary:Package} ${db:Status-Abbrev}\n' '*reprieve*' | grep ' ii')" ]
echo "packages: installed, used, removed"
