# SPDX-License-Identifier: Apache-2.0
# cmake -D OUT=file.c -D FOLDER=policies -D NAMES=a,b -P embed.cmake
# turns FOLDER/a.json and FOLDER/b.json into C arrays.
string(REPLACE "," ";" names "${NAMES}")
set(arrays "")
set(rows "")
set(words "")
set(count 0)
foreach(name IN LISTS names)
    file(READ "${FOLDER}/${name}.json" hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    # 0a ends a line of the JSON: the array breaks where the document does.
    string(REPLACE "0x0a," "0x0a,\n    " bytes "    ${bytes}")
    string(APPEND arrays "static const unsigned char text_${count}[] = {\n${bytes}\n};\n\n")
    string(APPEND rows "    { \"${name}\", text_${count}, sizeof text_${count} },\n")
    string(APPEND words "\"${name}\", ")
    math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUT}" "/* SPDX-License-Identifier: Apache-2.0 */
/* Made from the JSON files of the folder policies; not to be edited. */
#include \"policy/fields.h\"

${arrays}const struct rsbx_shipped_policy rsbx_shipped_policies[] = {
${rows}};
const size_t rsbx_shipped_policy_count = ${count};

const char *const *reposbx_policy_names(void)
{
    static const char *const names[] = { ${words}NULL };

    return names;
}
")
