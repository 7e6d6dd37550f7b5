# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: the library (shared and static), the public headers, the
# shipped policies, and the files by which pkg-config and find_package see them. The guest is inside
# the library; cli/ installs the command with its manual pages and completions.
include(CMakePackageConfigHelpers)

# rsbx_rooms_below(OUT TARGET): every room that TARGET is linked from, directly or not.
function(rsbx_rooms_below out target)
    set(seen)
    set(queue ${target})
    while(queue)
        list(POP_FRONT queue current)
        foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
            get_target_property(linked ${current} ${property})
            if(NOT linked)
                continue()
            endif()
            foreach(entry IN LISTS linked)
                string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" entry "${entry}")
                if(NOT entry MATCHES "^rsbx_" OR NOT TARGET ${entry} OR entry IN_LIST seen)
                    continue()
                endif()
                get_target_property(type ${entry} TYPE)
                if(type STREQUAL "STATIC_LIBRARY" OR type STREQUAL "OBJECT_LIBRARY")
                    list(APPEND seen ${entry})
                    list(APPEND queue ${entry})
                endif()
            endforeach()
        endforeach()
    endwhile()
    set(${out} ${seen} PARENT_SCOPE)
endfunction()

if(TARGET reposbx_lib)
    set_target_properties(reposbx_lib PROPERTIES OUTPUT_NAME reposbx
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
    install(TARGETS reposbx_lib LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

    # One archive of all rooms, so that a static customer names one library.
    rsbx_rooms_below(rooms reposbx_lib)
    set(objects $<TARGET_OBJECTS:reposbx_lib>)
    foreach(room IN LISTS rooms)
        list(APPEND objects $<TARGET_OBJECTS:${room}>)
    endforeach()
    add_library(reposbx_static STATIC ${objects})
    set_target_properties(reposbx_static PROPERTIES OUTPUT_NAME reposbx LINKER_LANGUAGE C)
    install(TARGETS reposbx_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

    install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/reposbx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
    configure_file(${CMAKE_SOURCE_DIR}/cmake/reposbx.pc.in ${CMAKE_BINARY_DIR}/reposbx.pc.in @ONLY)
    # The prefix is known only when it is installed, by --prefix.
    install(CODE "
        set(text)
        file(READ \"${CMAKE_BINARY_DIR}/reposbx.pc.in\" text)
        string(REPLACE \"prefix=${CMAKE_INSTALL_PREFIX}\" \"prefix=\${CMAKE_INSTALL_PREFIX}\"
            text \"\${text}\")
        file(WRITE \"${CMAKE_BINARY_DIR}/reposbx.pc\" \"\${text}\")")
    install(FILES ${CMAKE_BINARY_DIR}/reposbx.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

    set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reposbx)
    set(reposbx_library ${CMAKE_INSTALL_LIBDIR}/libreposbx.so)
    configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/reposbxConfig.cmake.in
        ${CMAKE_BINARY_DIR}/reposbxConfig.cmake INSTALL_DESTINATION ${package_dir}
        PATH_VARS CMAKE_INSTALL_INCLUDEDIR reposbx_library)
    write_basic_package_version_file(${CMAKE_BINARY_DIR}/reposbxConfigVersion.cmake
        COMPATIBILITY SameMinorVersion)
    install(FILES ${CMAKE_BINARY_DIR}/reposbxConfig.cmake
        ${CMAKE_BINARY_DIR}/reposbxConfigVersion.cmake DESTINATION ${package_dir})
endif()

install(DIRECTORY ${CMAKE_SOURCE_DIR}/policies/ DESTINATION ${CMAKE_INSTALL_DATADIR}/reposbx/policies
    FILES_MATCHING PATTERN "*.json" PATTERN "README.md")
