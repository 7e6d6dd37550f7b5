# SPDX-License-Identifier: Apache-2.0
# rsbx_room(NAME SOURCES … USES …): one static library a room, named rsbx_NAME. Sources are listed,
# never globbed. USES names rooms (rsbx_…) and third-party targets (PkgConfig::…).
function(rsbx_room name)
    cmake_parse_arguments(ROOM "" "" "SOURCES;USES" ${ARGN})
    add_library(rsbx_${name} STATIC ${ROOM_SOURCES})
    target_include_directories(rsbx_${name} PUBLIC
        ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(rsbx_${name} PRIVATE rsbx_flags PUBLIC ${ROOM_USES})
endfunction()

# rsbx_soname(OUT LIBRARIES NAME): the name by which the loader finds the library NAME of LIBRARIES
# (paths, as pkg-config gave them). For those that are loaded when they are needed (base/lazy.h).
function(rsbx_soname out libraries name)
    foreach(path IN LISTS libraries)
        if(path MATCHES "/${name}\\.")
            execute_process(COMMAND ${CMAKE_READELF} -d ${path} OUTPUT_VARIABLE text
                COMMAND_ERROR_IS_FATAL ANY)
            if(text MATCHES "SONAME[^[]*\\[([^]]+)\\]")
                set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
                return()
            endif()
        endif()
    endforeach()
    message(FATAL_ERROR "no shared ${name} among ${libraries}")
endfunction()

# rsbx_test(NAME TIER SOURCES … USES … LABELS …): one cmocka program, labelled with its tier and with LABELS:
# `engine`, `forks` for what cannot run with sanitizers. Exit code 77 is a skip; where REPOSBX_TEST_MUST_RUN=1
# stands in the environment the program fails instead.
function(rsbx_test name tier)
    cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;USES;LABELS" ${ARGN})
    if(NOT TEST_TIMEOUT)
        set(TEST_TIMEOUT 600)
    endif()
    add_executable(test_${name} ${TEST_SOURCES})
    target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(test_${name} PRIVATE rsbx_flags ${TEST_USES} PkgConfig::CMOCKA)
    add_test(NAME ${tier}/${name} COMMAND test_${name})
    set_tests_properties(${tier}/${name} PROPERTIES LABELS "${tier};${TEST_LABELS}" SKIP_RETURN_CODE 77
        TIMEOUT ${TEST_TIMEOUT}
        ENVIRONMENT "ASAN_OPTIONS=handle_segv=2:handle_sigbus=2:handle_abort=2")
    if(tier MATCHES "^(unit|fake|hostile)$" AND NOT TEST_LABELS)
        add_dependencies(tests-without-engine test_${name})
    endif()
endfunction()
