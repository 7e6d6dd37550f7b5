/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <reposbx/policy.h>
#include <reposbx/receipt.h>

#include "artifact/bundle.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/fd.h"
#include "codec/sha256.h"

#include "base/banned.h"

/*
 * A state folder with one session in it, its log written by the audit room: no engine is needed for a
 * receipt. Each test has a fresh one.
 */
#define ID "sbx-00112233445566778899aabbccddeeff"
#define TREE "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
#define PATCH "diff --git a/x b/x\nnew file mode 100644\n"

static char root[64], session_dir[160], audit_dir[192], patch_file[96], bundle_file[96];
static reposbx_provider *provider;
static json_t *metadata;
static char *receipt;
static reposbx_receipt_report report;
static char *private_pem, *public_pem;

static void write_file(const char *path, const char *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, bytes, length), 0);
    assert_int_equal(close(fd), 0);
}

static void write_json(const char *name, const json_t *value)
{
    char path[256];
    char *text = json_dumps(value, JSON_COMPACT);

    assert_non_null(text);
    (void)snprintf(path, sizeof path, "%s/%s", session_dir, name);
    write_file(path, text, strlen(text));
    free(text);
}

static void make_metadata(void)
{
    reposbx_policy *policy = NULL;
    char *text = NULL;

    assert_int_equal(reposbx_policy_default(&policy, NULL), 0);
    assert_int_equal(reposbx_policy_json(&text, policy, 0, NULL), 0);
    metadata = json_pack(
        "{s:s, s:n, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:o, s:s, s:{}, "
        "s:s}",
        "sandbox_id", ID, "task_id", "provider", "docker", "isolation", "container", "image",
        "sha256:ab", "image_id", "sha256:ab", "platform", "linux/amd64", "source_revision",
        "0123456789012345678901234567890123456789", "source_tree", TREE, "source_fingerprint",
        "sha256-v2:00", "source_file_count", 1, "source_bytes", 4, "workspace", "copy", "network",
        "none", "policy", json_loads(text, 0, NULL), "created_at", "2026-01-02T03:04:05.678Z",
        "capabilities", "state", "ready");
    assert_non_null(metadata);
    reposbx_policy_free(policy);
    free(text);
}

static void append(struct rsbx_audit *audit, const char *event, json_t *data)
{
    assert_non_null(data);
    assert_int_equal(rsbx_audit_append(audit, event, data,
                                       strcmp(event, "sandbox_closed") == 0 ? RSBX_AUDIT_FINAL
                                                                            : RSBX_AUDIT_ORDINARY,
                                       NULL),
                     0);
    json_decref(data);
}

/* Opens the log, adds one record more, closes it again. */
static void append_later(const char *event, json_t *data)
{
    struct rsbx_audit *audit = NULL;
    int fd = open(audit_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(rsbx_audit_open(&audit, fd, 1U << 24, NULL), 0);
    append(audit, event, data);
    rsbx_audit_free(audit);
    assert_int_equal(close(fd), 0);
}

static json_t *bundle_record(void)
{
    static const struct rsbx_bundle_limits limits = { .max_members = 10, .max_bytes = 1U << 20 };
    struct rsbx_bundle *bundle = NULL;
    struct rsbx_bundle_result made = { .members = NULL };
    json_t *record;

    assert_int_equal(rsbx_bundle_new(&bundle, &limits, NULL), 0);
    assert_int_equal(rsbx_bundle_add(bundle, "a.txt", 5, 0644, "content", 7, NULL), 0);
    assert_int_equal(rsbx_bundle_finish(&made, bundle, bundle_file, NULL), 0);
    record = json_pack("{s:s, s:I, s:[{s:s, s:I, s:s}]}", "sha256", made.sha256, "size",
                       (json_int_t)made.size, "members", "path", made.members[0].name, "size",
                       (json_int_t)made.members[0].size, "sha256", made.members[0].sha256);
    rsbx_bundle_result_dispose(&made);
    rsbx_bundle_free(bundle);
    return record;
}

static void make_log(void)
{
    char hash[65];

    assert_int_equal(mkdir(audit_dir, 0700), 0);
    append_later("sandbox_created", json_pack("{s:O}", "metadata", metadata));
    append_later("command_started",
                 json_pack("{s:s, s:[s, s], s:n, s:s, s:[], s:{s:i}}", "command_id", "cmd-000001",
                           "argv", "make", "test \xc3\xa9", "argv_hex", "cwd", "", "env",
                           "observed", "pids", 64));
    rsbx_sha256_hex(hash, "", 0);
    append_later("command_finished",
                 json_pack("{s:s, s:s, s:i, s:{s:i, s:s}, s:{s:i, s:s}}", "command_id",
                           "cmd-000001", "status", "exited", "exit_code", 0, "stdout", "bytes", 0,
                           "sha256", hash, "stderr", "bytes", 0, "sha256", hash));
    append_later("command_started", json_pack("{s:s, s:[s]}", "command_id", "cmd-000002", "argv",
                                              "lost"));
    append_later("diff_created", json_pack("{s:s, s:i}", "sha256", hash, "bytes", 0));
    rsbx_sha256_hex(hash, PATCH, sizeof PATCH - 1);
    append_later("diff_created",
                 json_pack("{s:s, s:i, s:s, s:s}", "sha256", hash, "bytes", (int)sizeof PATCH - 1,
                           "base_tree", TREE, "result_tree", TREE));
    append_later("artifacts_collected", bundle_record());
}

static void make_keys(void)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    BIO *out = BIO_new(BIO_s_mem());
    char *text;
    long length;

    assert_non_null(key);
    assert_int_equal(PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    length = BIO_get_mem_data(out, &text);
    free(private_pem);
    private_pem = strndup(text, (size_t)length);
    (void)BIO_reset(out);
    assert_int_equal(PEM_write_bio_PUBKEY(out, key), 1);
    length = BIO_get_mem_data(out, &text);
    free(public_pem);
    public_pem = strndup(text, (size_t)length);
    BIO_free(out);
    EVP_PKEY_free(key);
}

static int setup(void **state)
{
    reposbx_provider_options options = REPOSBX_PROVIDER_OPTIONS_INIT;
    char sessions[80], boot[RSBX_BOOT_ID_BYTES];
    json_t *spec;

    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/rsbx-receipt-XXXXXX");
    if (mkdtemp(root) == NULL)
        return -1;
    (void)snprintf(sessions, sizeof sessions, "%s/sessions", root);
    (void)snprintf(session_dir, sizeof session_dir, "%s/" ID, sessions);
    (void)snprintf(audit_dir, sizeof audit_dir, "%s/audit", session_dir);
    (void)snprintf(patch_file, sizeof patch_file, "%s/fix.patch", root);
    (void)snprintf(bundle_file, sizeof bundle_file, "%s/out.zip", root);
    options.state_dir = root;
    options.engine = "unix:///nonexistent.sock";
    assert_int_equal(reposbx_provider_open(&provider, &options, NULL), 0);
    assert_int_equal(mkdir(session_dir, 0700), 0);
    make_metadata();
    write_json("metadata.json", metadata);
    assert_int_equal(rsbx_boot_id(boot, NULL), 0);
    spec = json_pack("{s:i, s:s, s:s, s:I, s:I, s:[]}", "version", 1, "engine",
                     "unix:///nonexistent.sock", "boot_id", boot, "monotonic_ns",
                     (json_int_t)rsbx_now_ns(), "wall_ns", (json_int_t)rsbx_wall_ns(), "excludes");
    write_json("spec.json", spec);
    json_decref(spec);
    make_log();
    write_file(patch_file, PATCH, sizeof PATCH - 1);
    make_keys();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    reposbx_provider_free(provider);
    provider = NULL;
    json_decref(metadata);
    free(receipt);
    receipt = NULL;
    reposbx_receipt_report_dispose(&report);
    return rsbx_remove_tree_at(AT_FDCWD, root, NULL);
}

static int make(bool with_key, reposbx_error *err)
{
    reposbx_receipt_options options = REPOSBX_RECEIPT_OPTIONS_INIT;
    char *made = NULL;
    int rc;

    if (with_key) {
        options.private_key = private_pem;
        options.private_key_length = strlen(private_pem);
    }
    rc = reposbx_receipt_make(&made, provider, ID, &options, err);
    if (rc == 0) {
        free(receipt);
        receipt = made;
    } else {
        assert_null(made);
    }
    return rc;
}

static const char *bundles[1];

static reposbx_receipt_verify_options everything(void)
{
    reposbx_receipt_verify_options options = REPOSBX_RECEIPT_VERIFY_OPTIONS_INIT;

    bundles[0] = bundle_file;
    options.patch = patch_file;
    options.bundles = bundles;
    options.bundle_count = 1;
    options.audit_dir = audit_dir;
    return options;
}

static void verify(const reposbx_receipt_verify_options *options)
{
    reposbx_error err = REPOSBX_ERROR_INIT;

    reposbx_receipt_report_dispose(&report);
    if (reposbx_receipt_verify(&report, receipt, strlen(receipt), options, &err) != 0)
        fail_msg("%s", err.message);
}

/* The one result of a name; -1 when there is none. */
static int result_of(const char *name)
{
    for (size_t i = 0; i < report.count; i++) {
        if (strcmp(report.checks[i].name, name) == 0)
            return report.checks[i].result;
    }
    return -1;
}

static void binds_what_happened(void **state)
{
    json_t *document, *predicate, *command;

    (void)state;
    assert_int_equal(make(false, NULL), 0);
    document = json_loads(receipt, JSON_REJECT_DUPLICATES, NULL);
    predicate = json_object_get(document, "predicate");
    assert_string_equal(json_string_value(json_object_get(document, "_type")),
                        "https://in-toto.io/Statement/v1");
    assert_int_equal(json_array_size(json_object_get(document, "subject")), 3);
    assert_int_equal(json_array_size(json_object_get(predicate, "commands")), 2);
    command = json_array_get(json_object_get(predicate, "commands"), 0);
    assert_string_equal(json_string_value(json_object_get(command, "status")), "exited");
    assert_int_equal(json_integer_value(json_object_get(command, "finished_seq")), 2);
    command = json_array_get(json_object_get(predicate, "commands"), 1);
    assert_string_equal(json_string_value(json_object_get(command, "status")), "unfinished");
    assert_true(json_is_null(json_object_get(command, "finished_seq")));
    /* The last diff, not the first. */
    assert_int_equal(json_integer_value(json_object_get(json_object_get(predicate, "diff"),
                                                        "bytes")),
                     sizeof PATCH - 1);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(predicate, "audit"), "records")), 7);
    json_decref(document);
}

static void says_what_was_checked(void **state)
{
    reposbx_receipt_verify_options options = everything();
    static const char *const given[] = { "format", "policy", "patch", "bundle", "audit" };
    static const char *const missing[] = { "signature", "patch", "bundle", "audit", "repository" };

    (void)state;
    assert_int_equal(make(false, NULL), 0);
    verify(&options);
    assert_int_equal(report.failed, 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(result_of(given[i]), REPOSBX_RECEIPT_OK);
    assert_int_equal(result_of("repository"), REPOSBX_RECEIPT_NOT_CHECKED);
    verify(NULL);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.not_checked, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(result_of(missing[i]), REPOSBX_RECEIPT_NOT_CHECKED);
    options.patch = "/nonexistent";
    assert_int_equal(reposbx_receipt_verify(&report, receipt, strlen(receipt), &options, NULL),
                     REPOSBX_ENOTFOUND);
}

static void other_files_fail(void **state)
{
    reposbx_receipt_verify_options options = everything();

    (void)state;
    assert_int_equal(make(false, NULL), 0);
    write_file(patch_file, PATCH " ", sizeof PATCH);
    verify(&options);
    assert_int_equal(result_of("patch"), REPOSBX_RECEIPT_FAILED);
    assert_int_equal(report.failed, 1);
    bundles[0] = patch_file;
    verify(&options);
    assert_int_equal(result_of("bundle"), REPOSBX_RECEIPT_FAILED);
    options.repo = root;
    verify(&options);
    assert_int_equal(result_of("repository"), REPOSBX_RECEIPT_FAILED);
}

static void the_log_may_go_on(void **state)
{
    const reposbx_receipt_verify_options options = everything();

    (void)state;
    assert_int_equal(make(false, NULL), 0);
    append_later("sandbox_closed", json_object());
    verify(&options);
    assert_int_equal(result_of("audit"), REPOSBX_RECEIPT_OK);
    /* A receipt of the whole log is another one. */
    assert_int_equal(make(false, NULL), 0);
    assert_non_null(strstr(receipt, "\"verdict\":\"whole\""));
    verify(&options);
    assert_int_equal(report.failed, 0);
}

static void a_changed_log_gives_none(void **state)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    char path[256];
    char *text = NULL;
    size_t length;
    RSBX_AUTO(rsbx_buf) struct rsbx_buf log = RSBX_BUF_INIT(1U << 20);

    (void)state;
    assert_int_equal(make(false, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/events.jsonl", audit_dir);
    assert_int_equal(rsbx_read_file_at(&log, AT_FDCWD, path, NULL), 0);
    text = log.data;
    length = log.length;
    /* One byte of each hundred; the whole sweep over a log is the audit room's own test. */
    for (size_t i = 0; i < length; i += 97) {
        const reposbx_receipt_verify_options options = everything();

        text[i] ^= 1;
        write_file(path, text, length);
        assert_int_equal(make(false, &err), REPOSBX_EPROTOCOL);
        verify(&options);
        assert_int_equal(result_of("audit"), REPOSBX_RECEIPT_FAILED);
        text[i] ^= 1;
    }
    write_file(path, text, length);
    assert_int_equal(make(false, NULL), 0);
    (void)json_object_set_new(metadata, "image_id", json_string("sha256:cd"));
    write_json("metadata.json", metadata);
    assert_int_equal(make(false, &err), REPOSBX_EPROTOCOL);
    assert_non_null(strstr(err.message, "image_id"));
    assert_int_equal(truncate(path, (off_t)length - 5), 0);
    assert_int_equal(make(false, &err), REPOSBX_EPROTOCOL);
}

static void signatures(void **state)
{
    reposbx_receipt_verify_options options = everything();
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    options.public_key = public_pem;
    options.public_key_length = strlen(public_pem);
    assert_int_equal(make(false, NULL), 0);
    verify(&options);
    assert_int_equal(result_of("signature"), REPOSBX_RECEIPT_FAILED);
    assert_int_equal(make(true, NULL), 0);
    verify(&options);
    assert_int_equal(report.failed, 0);
    assert_int_equal(result_of("signature"), REPOSBX_RECEIPT_OK);
    make_keys();
    options.public_key = public_pem;
    options.public_key_length = strlen(public_pem);
    verify(&options);
    assert_int_equal(result_of("signature"), REPOSBX_RECEIPT_FAILED);
    assert_int_equal(report.failed, 1);
    options.public_key = private_pem;
    options.public_key_length = strlen(private_pem);
    assert_int_equal(reposbx_receipt_verify(&report, receipt, strlen(receipt), &options, &err),
                     REPOSBX_EMALFORMED);
    private_pem[40] ^= 1;
    (void)memset(private_pem, 'x', 5);
    assert_int_equal(make(true, &err), REPOSBX_EMALFORMED);
}

/* Every byte of the text changed in turn. What goes unseen must lie within [from, to). */
static size_t sweep(const reposbx_receipt_verify_options *options, const char *from, const char *to)
{
    size_t length = strlen(receipt), seen = 0;

    for (size_t i = 0; i < length; i++) {
        receipt[i] ^= 1;
        reposbx_receipt_report_dispose(&report);
        assert_int_equal(reposbx_receipt_verify(&report, receipt, length, options, NULL), 0);
        receipt[i] ^= 1;
        if (report.failed > 0)
            seen++;
        else if (receipt + i < from || receipt + i >= to)
            fail_msg("a change of byte %zu (%.20s) is not seen", i, receipt + i);
    }
    return seen;
}

static void every_changed_byte_is_seen(void **state)
{
    reposbx_receipt_verify_options options = everything();
    const char *tool, *id;
    size_t seen;

    (void)state;
    /* Unsigned, against the log: all but the name and version of the tool that wrote it. */
    assert_int_equal(make(false, NULL), 0);
    tool = strstr(receipt, "\"tool\":{");
    assert_non_null(tool);
    seen = sweep(&options, tool + 8, strchr(tool, '}'));
    print_message("unsigned: %zu of %zu changed bytes are seen\n", seen, strlen(receipt));
    /* Signed, with nothing but the key: all but the hint which key it was. */
    options = (reposbx_receipt_verify_options)REPOSBX_RECEIPT_VERIFY_OPTIONS_INIT;
    options.public_key = public_pem;
    options.public_key_length = strlen(public_pem);
    assert_int_equal(make(true, NULL), 0);
    id = strstr(receipt, "\"keyid\":");
    assert_non_null(id);
    seen = sweep(&options, id, strstr(id, "\"sig\""));
    print_message("signed: %zu of %zu changed bytes are seen\n", seen, strlen(receipt));
}

static void any_text_is_an_answer(void **state)
{
    static const char *const texts[] = { "", "{}", "[]", "null", "{\"payloadType\":1}",
                                         "{\"payloadType\":\"application/vnd.in-toto+json\","
                                         "\"payload\":\"e30=\",\"signatures\":[]}" };
    reposbx_receipt_verify_options options = everything();

    (void)state;
    options.public_key = public_pem;
    options.public_key_length = strlen(public_pem);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        free(receipt);
        receipt = strdup(texts[i]);
        verify(&options);
        assert_int_equal(result_of("format"), REPOSBX_RECEIPT_FAILED);
        assert_int_equal(result_of("signature"), REPOSBX_RECEIPT_FAILED);
        assert_int_equal(result_of("audit"), REPOSBX_RECEIPT_NOT_CHECKED);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(binds_what_happened),  TEST(says_what_was_checked),      TEST(other_files_fail),
        TEST(the_log_may_go_on),    TEST(a_changed_log_gives_none),   TEST(signatures),
        TEST(every_changed_byte_is_seen), TEST(any_text_is_an_answer),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    free(private_pem);
    free(public_pem);
    return failed;
}
