# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a C source with the text of FILES (separated by commas, below FOLDER):
# cmake -DFOLDER=… -DFILES=a.c,a.h -DOUTPUT=… -P embed.cmake
string(REPLACE "," ";" names "${FILES}")
set(arrays "")
set(table "")
set(index 0)
foreach(name IN LISTS names)
    file(READ "${FOLDER}/${name}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
        bytes "${bytes}")
    string(APPEND arrays "static const unsigned char file${index}[] = {\n${bytes}\n};\n")
    string(APPEND table "    { \"${name}\", file${index}, sizeof file${index} },\n")
    math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Generated from the sources of the WASI host. */
#include \"wasi/embedded.h\"

${arrays}
const struct rsbx_wasi_file rsbx_wasi_files[] = {
${table}    { NULL, NULL, 0 },
};
")
