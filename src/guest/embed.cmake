# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a C source with the bytes of INPUT: cmake -DINPUT=… -DOUTPUT=… -P embed.cmake
file(READ "${INPUT}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
    bytes "${bytes}")
file(WRITE "${OUTPUT}" "/* Generated from the guest's binary. */
#include \"guest/embedded.h\"

const unsigned char rsbx_guest_binary[] = {
${bytes}
};
const size_t rsbx_guest_binary_size = sizeof(rsbx_guest_binary);
")
