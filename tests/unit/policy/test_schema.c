/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/limits.h"
#include "policy/fields.h"
#include "policy/policy.h"

#include "base/banned.h"

/* The schema for editors and the table of the parser say the same. */
static json_t *schema;

static int setup(void **state)
{
    struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_POLICY_BYTES);

    (void)state;
    if (rsbx_read_file_at(&text, AT_FDCWD, RSBX_POLICIES "/policy.schema.json", NULL) != 0)
        return -1;
    schema = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    rsbx_buf_dispose(&text);
    return schema != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(schema);
    return 0;
}

/* The properties of the top level or of a section, which must allow no others. */
static json_t *properties_of(const char *section)
{
    json_t *object = schema;

    if (section[0] != '\0')
        object = json_object_get(json_object_get(schema, "properties"), section);
    assert_non_null(object);
    assert_true(json_is_false(json_object_get(object, "additionalProperties")));
    return json_object_get(object, "properties");
}

static void each_field_is_described_alike(void **state)
{
    reposbx_policy *policy = NULL;
    json_t *defaults = NULL;

    (void)state;
    assert_int_equal(reposbx_policy_default(&policy, NULL), 0);
    assert_int_equal(rsbx_policy_value(&defaults, policy, NULL), 0);
    for (size_t i = 0; i < RSBX_FIELD_COUNT_ALL; i++) {
        const struct rsbx_field *field = &rsbx_policy_fields[i];
        const json_t *property = json_object_get(properties_of(field->section), field->key);
        const json_t *given = field->section[0] != '\0' ? json_object_get(defaults, field->section)
                                                        : defaults;
        const json_t *words = json_object_get(property, "enum");

        if (property == NULL)
            print_error("%s.%s is not in the schema\n", field->section, field->key);
        assert_non_null(property);
        assert_true(json_equal(json_object_get(property, "default"),
                               json_object_get(given, field->key)));
        if (field->most > 0) {
            assert_true(json_number_value(json_object_get(property, "minimum")) == field->least);
            assert_true(json_number_value(json_object_get(property, "maximum")) == field->most);
        }
        for (size_t word = 0; field->words[word] != NULL; word++) {
            assert_string_equal(json_string_value(json_array_get(words, word)), field->words[word]);
            assert_true(field->words[word + 1] != NULL || json_array_size(words) == word + 1);
        }
    }
    json_decref(defaults);
    reposbx_policy_free(policy);
}

static void nothing_else_is_described(void **state)
{
    size_t count = json_object_size(properties_of(""));

    (void)state;
    for (size_t i = 0; i < RSBX_SECTION_COUNT; i++)
        count += json_object_size(properties_of(rsbx_policy_sections[i]));
    assert_int_equal(count, RSBX_FIELD_COUNT_ALL + RSBX_SECTION_COUNT + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_is_described_alike),
        cmocka_unit_test(nothing_else_is_described),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
