# SPDX-License-Identifier: Apache-2.0
# Build options and the flags that every target of ours gets.
option(REPOSBX_WERROR "Treat warnings as errors (CI)" OFF)
option(REPOSBX_HARDENING "OpenSSF hardening flags" ON)
option(REPOSBX_FUZZING "Build the libFuzzer targets (clang)" OFF)
set(REPOSBX_SANITIZE "" CACHE STRING "Sanitizers, for instance address,undefined or thread")

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

add_library(rsbx_flags INTERFACE)
target_compile_definitions(rsbx_flags INTERFACE _GNU_SOURCE)
target_compile_options(rsbx_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
    -Wpointer-arith -Wwrite-strings -Wcast-qual -Wswitch-enum -Wundef -Wconversion)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(rsbx_flags INTERFACE
        -Wjump-misses-init -Wlogical-op -Wduplicated-cond -Wduplicated-branches)
endif()
if(REPOSBX_WERROR)
    target_compile_options(rsbx_flags INTERFACE -Werror)
endif()
if(REPOSBX_SANITIZE)
    target_compile_options(rsbx_flags INTERFACE
        -fsanitize=${REPOSBX_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(rsbx_flags INTERFACE -fsanitize=${REPOSBX_SANITIZE})
elseif(REPOSBX_HARDENING)
    target_compile_options(rsbx_flags INTERFACE
        -U_FORTIFY_SOURCE $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>
        -fstack-protector-strong -fstack-clash-protection -fcf-protection=full)
    target_link_options(rsbx_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed)
endif()
