# SPDX-License-Identifier: BSD-3-Clause
# RPM packages of the same components as in debian.cmake: `cpack --preset package -G RPM`. rpmbuild finds by itself which
# libraries they need.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE BSD-3-Clause)
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
# Folders of the system, which belong to no package of ours.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION ${CMAKE_INSTALL_FULL_LIBDIR}
  /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/fish /usr/share/fish/vendor_completions.d
  /usr/share/zsh /usr/share/zsh/site-functions /usr/lib/python3 /usr/lib/python3/dist-packages)

set(rpm_library libreprieve${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(rpm_same_version "${rpm_library} = ${PROJECT_VERSION}")
set(CPACK_RPM_LIBRARY_PACKAGE_NAME ${rpm_library})
set(CPACK_RPM_DEVELOPMENT_PACKAGE_NAME reprieve-devel)
set(CPACK_RPM_DEVELOPMENT_PACKAGE_REQUIRES "${rpm_same_version}")
set(CPACK_RPM_TOOLS_PACKAGE_NAME reprieve-tools)
set(CPACK_RPM_TOOLS_PACKAGE_REQUIRES "${rpm_same_version}")
set(CPACK_RPM_PYTHON_PACKAGE_NAME python3-reprieve)
set(CPACK_RPM_PYTHON_PACKAGE_REQUIRES "${rpm_same_version}, python3 >= 3.9")
