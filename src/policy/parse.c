/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#include "base/banned.h"

/*
 * One walk over the document in its own order, so that the mistakes come out in the order of their
 * places even where the list is full. A value that is wrong leaves its default standing and the
 * walk goes on.
 */
struct reading {
    reposbx_policy *policy;
    struct rsbx_problems *problems;
    bool bad[RSBX_FIELD_COUNT_ALL];
    bool given[RSBX_FIELD_COUNT_ALL];
    bool no_memory;
};

#define PATH_BYTES 512U

#define NOTE(in, ...) rsbx_policy_note((in)->problems, __VA_ARGS__)

/* ---- words that are nearly right ---- */

static size_t least_of(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Edits between two short words (Levenshtein); long ones count as far apart. */
static size_t word_distance(const char *a, const char *b)
{
    size_t rows[2][33];
    size_t a_length = strlen(a), b_length = strlen(b);

    if (a_length > 32 || b_length > 32)
        return (size_t)-1;
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        const size_t *above = rows[(i - 1) % 2];
        size_t *row = rows[i % 2];

        row[0] = i;
        for (size_t j = 1; j <= b_length; j++)
            row[j] = least_of(above[j] + 1, row[j - 1] + 1,
                              above[j - 1] + (a[i - 1] != b[j - 1] ? 1U : 0U));
    }
    return rows[a_length % 2][b_length];
}

static void consider(const char **best, size_t *best_distance, const char *word, const char *given)
{
    size_t distance = word_distance(word, given);

    /* A third of the word may be wrong: "pid" is near "pids", "cpu" is not near "name". */
    if (distance < *best_distance && distance * 3 <= strlen(word) + 1) {
        *best = word;
        *best_distance = distance;
    }
}

static void note_unknown(struct reading *in, const char *section, const char *key,
                         const char *path)
{
    const char *best = NULL;
    size_t distance = (size_t)-1;

    for (size_t i = 0; i < RSBX_FIELD_COUNT_ALL; i++) {
        const struct rsbx_field *field = &rsbx_policy_fields[i];

        if (strcmp(field->key, key) == 0) {
            if (field->section[0] == '\0')
                NOTE(in, path, "\"%s\" does not belong into \"%s\" but to the top level", key,
                     section);
            else
                NOTE(in, path, "\"%s\" belongs into \"%s\"", key, field->section);
            return;
        }
        if (strcmp(field->section, section) == 0)
            consider(&best, &distance, field->key, key);
    }
    for (size_t i = 0; section[0] == '\0' && i < RSBX_SECTION_COUNT; i++)
        consider(&best, &distance, rsbx_policy_sections[i], key);
    if (section[0] == '\0')
        consider(&best, &distance, "version", key);
    if (best != NULL)
        NOTE(in, path, "unknown key \"%.100s\"; did you mean \"%s\"?", key, best);
    else
        NOTE(in, path, "unknown key \"%.100s\"", key);
}

/* ---- values ---- */

static const char *type_word(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
    default:
        return "null";
    }
}

static void *place(const struct reading *in, const struct rsbx_field *field)
{
    return (char *)in->policy + field->offset;
}

static bool read_flag(struct reading *in, const struct rsbx_field *field, const json_t *value,
                      const char *path)
{
    if (!json_is_boolean(value)) {
        NOTE(in, path, "%s must be true or false, not %s", path, type_word(value));
        return false;
    }
    *(bool *)place(in, field) = json_is_true(value);
    return true;
}

static bool read_words(struct reading *in, const struct rsbx_field *field, const json_t *value,
                       const char *path)
{
    const char *given = json_string_value(value);
    const char *best = NULL;
    size_t distance = (size_t)-1;

    for (unsigned int i = 0; field->words[i] != NULL; i++) {
        if (given != NULL && strcmp(given, field->words[i]) == 0) {
            if (field->kind == RSBX_FIELD_SWITCH)
                *(bool *)place(in, field) = i == 1;
            else
                memcpy(place(in, field), &i, sizeof i);
            return true;
        }
        if (given != NULL)
            consider(&best, &distance, field->words[i], given);
    }
    NOTE(in, path, "%s must be \"%s\"%s%s%s or \"%s\", not %s%.60s%s", path, field->words[0],
         field->words[2] != NULL ? ", \"" : "", field->words[2] != NULL ? field->words[1] : "",
         field->words[2] != NULL ? "\"" : "",
         field->words[2] != NULL ? field->words[2] : field->words[1], given != NULL ? "\"" : "",
         given != NULL ? given : type_word(value), given != NULL ? "\"" : "");
    return false;
}

/* Bounds are whole numbers or have few digits: "%.15g" shows them as they were written. */
static bool note_range(struct reading *in, const struct rsbx_field *field, const char *path)
{
    NOTE(in, path, "%s must lie between %.16g and %.16g", path, field->least, field->most);
    return false;
}

static bool read_number(struct reading *in, const struct rsbx_field *field, const json_t *value,
                        const char *path)
{
    double number;

    if (!json_is_number(value)) {
        NOTE(in, path, "%s must be a number, not %s", path, type_word(value));
        return false;
    }
    number = json_number_value(value);
    if (!isfinite(number) || number < field->least || number > field->most)
        return note_range(in, field, path);
    *(double *)place(in, field) = number;
    return true;
}

static bool read_count(struct reading *in, const struct rsbx_field *field, const json_t *value,
                       const char *path)
{
    json_int_t number;

    if (field->kind == RSBX_FIELD_COUNT_NULL && json_is_null(value)) {
        *(uint64_t *)place(in, field) = 0;
        return true;
    }
    if (!json_is_integer(value)) {
        NOTE(in, path, "%s must be a whole number in plain digits, not %s", path,
             json_is_real(value) ? "a fraction or power" : type_word(value));
        return false;
    }
    number = json_integer_value(value);
    if (number < (json_int_t)field->least || number > (json_int_t)field->most)
        return note_range(in, field, path);
    if (field->kind == RSBX_FIELD_COUNT32)
        *(uint32_t *)place(in, field) = (uint32_t)number;
    else
        *(uint64_t *)place(in, field) = (uint64_t)number;
    return true;
}

bool rsbx_plain_name(const char *text, size_t most)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t length = strlen(text);

    return length > 0 && length <= most && strspn(text, letters) == length &&
           strchr("_.-", text[0]) == NULL;
}

static bool read_text(struct reading *in, const struct rsbx_field *field, const json_t *value,
                      const char *path)
{
    bool null_allowed = field->kind != RSBX_FIELD_NAME;
    const char *text = json_string_value(value);
    char **target = place(in, field);
    char *copy = NULL;

    if (text == NULL && !(null_allowed && json_is_null(value))) {
        NOTE(in, path, "%s must be text%s, not %s", path, null_allowed ? " or null" : "",
             type_word(value));
        return false;
    }
    if (field->kind == RSBX_FIELD_PATH && text != NULL &&
        (text[0] != '/' || strlen(text) > RSBX_MAX_PATH_BYTES)) {
        NOTE(in, path, "%s must be an absolute path of at most %u bytes, or null", path,
             RSBX_MAX_PATH_BYTES);
        return false;
    }
    if (field->kind == RSBX_FIELD_IMAGE && text != NULL && rsbx_image_problem(text) != NULL) {
        NOTE(in, path, "%s is no image reference: %s", path, rsbx_image_problem(text));
        return false;
    }
    if (field->kind != RSBX_FIELD_PATH && field->kind != RSBX_FIELD_IMAGE && text != NULL &&
        !rsbx_plain_name(text, 128)) {
        NOTE(in, path,
             "%s must be 1 to 128 letters, digits, '_', '.' or '-', the first a letter or digit",
             path);
        return false;
    }
    if (text != NULL && (copy = strdup(text)) == NULL) {
        in->no_memory = true;
        return false;
    }
    free(*target);
    *target = copy;
    return true;
}

static bool read_image(struct reading *in, const json_t *value, const char *path)
{
    reposbx_policy *policy = in->policy;
    const char *image = json_string_value(value);
    const char *problem;

    if (image == NULL) {
        NOTE(in, path, "%s must be text, not %s", path, type_word(value));
        return false;
    }
    problem = rsbx_image_problem(image);
    if (problem != NULL) {
        NOTE(in, path, "%s is no image reference: %s", path, problem);
        return false;
    }
    for (size_t i = 0; i < policy->image_count; i++) {
        if (strcmp(policy->images[i], image) == 0) {
            NOTE(in, path, "%s is on the list already: \"%.150s\"", path, image);
            return false;
        }
    }
    policy->images[policy->image_count] = strdup(image);
    if (policy->images[policy->image_count] == NULL) {
        in->no_memory = true;
        return false;
    }
    policy->image_count++;
    return true;
}

static bool read_images(struct reading *in, const json_t *value, const char *path)
{
    char element[PATH_BYTES];
    bool good = true;
    size_t count;

    if (!json_is_array(value)) {
        NOTE(in, path, "%s must be a list of text, not %s", path, type_word(value));
        return false;
    }
    count = json_array_size(value);
    if (count > RSBX_MAX_POLICY_IMAGES) {
        NOTE(in, path, "%s has more than %u elements", path, RSBX_MAX_POLICY_IMAGES);
        return false;
    }
    if (count == 0)
        return true;
    in->policy->images = calloc(count, sizeof *in->policy->images);
    if (in->policy->images == NULL) {
        in->no_memory = true;
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(element, sizeof element, "%s[%zu]", path, i);
        if (!read_image(in, json_array_get(value, i), element))
            good = false;
    }
    return good;
}

static bool read_value(struct reading *in, const struct rsbx_field *field, const json_t *value,
                       const char *path)
{
    switch (field->kind) {
    case RSBX_FIELD_NAME:
    case RSBX_FIELD_PATH:
    case RSBX_FIELD_RUNTIME:
    case RSBX_FIELD_IMAGE:
        return read_text(in, field, value, path);
    case RSBX_FIELD_IMAGES:
        return read_images(in, value, path);
    case RSBX_FIELD_FLAG:
        return read_flag(in, field, value, path);
    case RSBX_FIELD_SWITCH:
    case RSBX_FIELD_CHOICE:
        return read_words(in, field, value, path);
    case RSBX_FIELD_COUNT:
    case RSBX_FIELD_COUNT32:
    case RSBX_FIELD_COUNT_NULL:
        return read_count(in, field, value, path);
    case RSBX_FIELD_NUMBER:
    default:
        return read_number(in, field, value, path);
    }
}

/* ---- the walk ---- */

static size_t find_field(const char *section, const char *key)
{
    for (size_t i = 0; i < RSBX_FIELD_COUNT_ALL; i++) {
        if (strcmp(rsbx_policy_fields[i].section, section) == 0 &&
            strcmp(rsbx_policy_fields[i].key, key) == 0)
            return i;
    }
    return RSBX_FIELD_COUNT_ALL;
}

static bool is_section(const char *key)
{
    for (size_t i = 0; i < RSBX_SECTION_COUNT; i++) {
        if (strcmp(rsbx_policy_sections[i], key) == 0)
            return true;
    }
    return false;
}

static void read_version(struct reading *in, const json_t *value)
{
    if (!json_is_integer(value))
        NOTE(in, "version", "version must be the number 1, not %s",
             json_is_real(value) ? "a fraction or power" : type_word(value));
    else if (json_integer_value(value) != 1)
        NOTE(in, "version", "version %" JSON_INTEGER_FORMAT " is not known; this library knows 1",
             json_integer_value(value));
}

static void read_object(struct reading *in, json_t *object, const char *section);

static void read_member(struct reading *in, const char *section, const char *key,
                        json_t *value)
{
    size_t index = find_field(section, key);
    RSBX_AUTO(rsbx_text) char *path = NULL;

    if (asprintf(&path, "%s%s%s", section, section[0] != '\0' ? "." : "", key) < 0) {
        path = NULL;
        in->no_memory = true;
        return;
    }
    if (index < RSBX_FIELD_COUNT_ALL) {
        in->given[index] = true;
        in->bad[index] = !read_value(in, &rsbx_policy_fields[index], value, path);
    } else if (section[0] == '\0' && strcmp(key, "version") == 0) {
        read_version(in, value);
    } else if (section[0] == '\0' && is_section(key)) {
        if (json_is_object(value))
            read_object(in, value, key);
        else
            NOTE(in, path, "%s must be an object, not %s", path, type_word(value));
    } else {
        note_unknown(in, section, key, path);
    }
}

/* At most two levels deep: sections hold no objects. */
static void read_object(struct reading *in, json_t *object, const char *section)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
        read_member(in, section, key, value);
}

static bool good_pair(const struct reading *in, size_t a, size_t b)
{
    return !in->bad[a] && !in->bad[b] && (in->given[a] || in->given[b]);
}

/* Rules between two fields; only where both are right in themselves. */
static void check_pairs(struct reading *in)
{
    const reposbx_policy *policy = in->policy;
    size_t output = find_field("limits", "output_bytes");
    size_t audit = find_field("limits", "audit_log_bytes");
    size_t quota = find_field("workspace", "require_disk_quota");
    size_t disk = find_field("workspace", "disk_bytes");

    if (good_pair(in, output, audit) &&
        policy->limits.output_bytes > policy->limits.audit_log_bytes)
        NOTE(in, in->given[output] ? "limits.output_bytes" : "limits.audit_log_bytes",
             "limits.output_bytes (%llu) may not exceed limits.audit_log_bytes (%llu)",
             (unsigned long long)policy->limits.output_bytes,
             (unsigned long long)policy->limits.audit_log_bytes);
    if (good_pair(in, quota, disk) && policy->require_disk_quota && policy->disk_bytes == 0)
        NOTE(in, "workspace.require_disk_quota",
             "workspace.require_disk_quota needs a size in workspace.disk_bytes");
}

int rsbx_policy_read(reposbx_policy **out, struct rsbx_problems *problems, const char *text,
                     size_t length, reposbx_error *err)
{
    struct reading in = { .problems = problems };
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = NULL;
    json_error_t fault;

    problems->text = text;
    problems->length = length;
    problems->count = 0;
    problems->dropped = 0;
    if (length > RSBX_MAX_POLICY_BYTES) {
        rsbx_policy_note(problems, NULL, "longer than %u bytes", RSBX_MAX_POLICY_BYTES);
        return REPOSBX_OK;
    }
    /* Not rsbx_json_parse: its error carries the place as text only. The rules are the same. */
    document = json_loadb(length > 0 ? text : "", length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
                          &fault);
    if (document == NULL) {
        if (json_error_code(&fault) == json_error_out_of_memory)
            return rsbx_fail_memory(err);
        rsbx_policy_note_syntax(problems, &fault);
        return REPOSBX_OK;
    }
    policy = rsbx_policy_new();
    if (policy == NULL)
        return rsbx_fail_memory(err);
    in.policy = policy;
    if (!json_is_object(document)) {
        NOTE(&in, "", "a policy must be an object, not %s", type_word(document));
        return REPOSBX_OK;
    }
    if (json_object_get(document, "version") == NULL)
        NOTE(&in, "", "\"version\": 1 is missing");
    read_object(&in, document, "");
    check_pairs(&in);
    if (in.no_memory)
        return rsbx_fail_memory(err);
    rsbx_policy_sort_problems(problems);
    if (problems->count == 0)
        *out = rsbx_policy_steal(&policy);
    return REPOSBX_OK;
}
