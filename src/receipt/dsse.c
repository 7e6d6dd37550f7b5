/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "codec/sha256.h"
#include "receipt/internal.h"

#include "base/banned.h"

/* DSSE, version 1 (secure-systems-lab): signed is not the payload but its pre-authentication
 * encoding, "DSSEv1 LEN(type) type LEN(payload) payload". */

#define SIGNATURE_BYTES 64U

typedef EVP_PKEY *pkey_ptr;
typedef EVP_MD_CTX *md_context_ptr;
typedef BIO *bio_ptr;
RSBX_CLEANUP(pkey, pkey_ptr, EVP_PKEY_free);
RSBX_CLEANUP(md_context, md_context_ptr, EVP_MD_CTX_free);
RSBX_CLEANUP(bio, bio_ptr, BIO_free_all);

/* ---- base64, the standard alphabet, padded, no line breaks ---- */

static char *encode(const void *bytes, size_t length)
{
    char *text = malloc(4 * (length / 3 + 1) + 1);

    if (text != NULL)
        (void)EVP_EncodeBlock((unsigned char *)text, bytes, (int)length);
    return text;
}

static int decode(struct rsbx_buf *out, const char *text, reposbx_error *err)
{
    size_t length = strlen(text), padding = 0;
    RSBX_AUTO(rsbx_text) char *again = NULL;
    unsigned char *place;
    int got;

    if (length % 4 != 0 || length > INT_MAX)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "the envelope holds no base64");
    place = rsbx_buf_reserve(out, length / 4 * 3 + 4, err);
    if (place == NULL)
        return err != NULL ? err->code : REPOSBX_EINTERNAL;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
        padding++;
    got = length > 0 ? EVP_DecodeBlock(place, (const unsigned char *)text, (int)length) : 0;
    if (got < 0 || (size_t)got < padding)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "the envelope holds no base64");
    out->length += (size_t)got - padding;
    out->data[out->length] = '\0';
    /* One value, one text: what decodes leniently is refused. */
    again = encode(place, (size_t)got - padding);
    if (again == NULL)
        return rsbx_fail_memory(err);
    return strcmp(again, text) == 0
               ? REPOSBX_OK
               : rsbx_fail(err, REPOSBX_EMALFORMED, "the envelope holds no base64");
}

/* ---- keys ---- */

/* Nobody is asked for a pass phrase. */
static int no_pass_phrase(char *out, int size, int writing, void *payload)
{
    (void)out;
    (void)size;
    (void)writing;
    (void)payload;
    return -1;
}

static int load_key(EVP_PKEY **out, const char *pem, size_t length, bool private,
                    reposbx_error *err)
{
    RSBX_AUTO(bio) bio_ptr bio = NULL;
    RSBX_AUTO(pkey) pkey_ptr key = NULL;

    if (length > INT_MAX)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "the key is too long");
    bio = BIO_new_mem_buf(pem, (int)length);
    if (bio == NULL)
        return rsbx_fail_memory(err);
    key = private ? PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL)
                  : PEM_read_bio_PUBKEY(bio, NULL, no_pass_phrase, NULL);
    ERR_clear_error();
    if (key == NULL || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
        (void)rsbx_fail(err, REPOSBX_EMALFORMED, "not an Ed25519 %s key in PEM form",
                        private ? "private" : "public");
        rsbx_hint(err, private ? "openssl genpkey -algorithm ed25519 makes one, without a pass phrase"
                               : "openssl pkey -in KEY -pubout gives it");
        return REPOSBX_EMALFORMED;
    }
    *out = pkey_steal(&key);
    return REPOSBX_OK;
}

int rsbx_dsse_public_key(const char *pem, size_t pem_length, reposbx_error *err)
{
    RSBX_AUTO(pkey) pkey_ptr key = NULL;

    return load_key(&key, pem, pem_length, false, err);
}

static int key_id(char out[65], EVP_PKEY *key, reposbx_error *err)
{
    unsigned char *der = NULL;
    int length = i2d_PUBKEY(key, &der);

    if (length <= 0)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "the public key cannot be encoded");
    rsbx_sha256_hex(out, der, (size_t)length);
    OPENSSL_free(der);
    return REPOSBX_OK;
}

/* ---- what is signed ---- */

static int encoding(struct rsbx_buf *out, const void *payload, size_t length, reposbx_error *err)
{
    int rc = rsbx_buf_format(out, err, "DSSEv1 %zu %s %zu ", sizeof RSBX_PAYLOAD_TYPE - 1,
                             RSBX_PAYLOAD_TYPE, length);

    return rc == 0 ? rsbx_buf_append(out, payload, length, err) : rc;
}

static int make_signature(unsigned char out[SIGNATURE_BYTES], EVP_PKEY *key, const void *payload,
                          size_t length, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_RECEIPT_BYTES + 256U);
    RSBX_AUTO(md_context) md_context_ptr context = EVP_MD_CTX_new();
    size_t size = SIGNATURE_BYTES;
    int rc = context != NULL ? encoding(&text, payload, length, err) : rsbx_fail_memory(err);

    if (rc != 0)
        return rc;
    if (EVP_DigestSignInit(context, NULL, NULL, NULL, key) != 1 ||
        EVP_DigestSign(context, out, &size, (const unsigned char *)text.data, text.length) != 1 ||
        size != SIGNATURE_BYTES) {
        ERR_clear_error();
        return rsbx_fail(err, REPOSBX_EINTERNAL, "the receipt cannot be signed");
    }
    return REPOSBX_OK;
}

int rsbx_dsse_sign(char **out, const char *payload, size_t length, const char *pem,
                   size_t pem_length, reposbx_error *err)
{
    RSBX_AUTO(pkey) pkey_ptr key = NULL;
    RSBX_AUTO(rsbx_text) char *payload_text = NULL;
    RSBX_AUTO(rsbx_text) char *signature_text = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr envelope = NULL;
    unsigned char signature[SIGNATURE_BYTES];
    char id[65];
    int rc = load_key(&key, pem, pem_length, true, err);

    if (rc == 0)
        rc = key_id(id, key, err);
    if (rc == 0)
        rc = make_signature(signature, key, payload, length, err);
    if (rc != 0)
        return rc;
    payload_text = encode(payload, length);
    signature_text = encode(signature, sizeof signature);
    if (payload_text == NULL || signature_text == NULL)
        return rsbx_fail_memory(err);
    envelope = json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "payloadType", RSBX_PAYLOAD_TYPE, "payload",
                         payload_text, "signatures", "keyid", id, "sig", signature_text);
    if (envelope == NULL)
        return rsbx_fail_memory(err);
    return rsbx_json_text(out, envelope, err);
}

int rsbx_dsse_payload(struct rsbx_buf *out, const json_t *envelope, reposbx_error *err)
{
    const char *type = json_string_value(json_object_get(envelope, "payloadType"));
    const char *payload = json_string_value(json_object_get(envelope, "payload"));

    if (type == NULL || strcmp(type, RSBX_PAYLOAD_TYPE) != 0)
        return rsbx_fail(err, REPOSBX_EMALFORMED,
                         "the envelope's payload is not " RSBX_PAYLOAD_TYPE);
    if (payload == NULL || !json_is_array(json_object_get(envelope, "signatures")))
        return rsbx_fail(err, REPOSBX_EMALFORMED, "the envelope lacks a payload or signatures");
    return decode(out, payload, err);
}

static bool signature_good(EVP_PKEY *key, const struct rsbx_buf *text, const char *signature)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(4096);
    RSBX_AUTO(md_context) md_context_ptr context = EVP_MD_CTX_new();
    bool good = context != NULL && decode(&bytes, signature, NULL) == 0 &&
                bytes.length == SIGNATURE_BYTES &&
                EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestVerify(context, (const unsigned char *)bytes.data, bytes.length,
                                 (const unsigned char *)text->data, text->length) == 1;

    ERR_clear_error();
    return good;
}

int rsbx_dsse_check(bool *good, const json_t *envelope, const struct rsbx_buf *payload,
                    const char *pem, size_t pem_length, reposbx_error *err)
{
    const json_t *signatures = json_object_get(envelope, "signatures");
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_RECEIPT_BYTES + 256U);
    RSBX_AUTO(pkey) pkey_ptr key = NULL;
    bool found = false;
    int rc = load_key(&key, pem, pem_length, false, err);

    if (rc == 0)
        rc = encoding(&text, payload->data, payload->length, err);
    if (rc != 0)
        return rc;
    /* The key id is a hint of the signer's; only the signature itself counts. */
    for (size_t i = 0; !found && i < json_array_size(signatures) && i < 64; i++) {
        const char *signature =
            json_string_value(json_object_get(json_array_get(signatures, i), "sig"));

        found = signature != NULL && signature_good(key, &text, signature);
    }
    *good = found;
    return REPOSBX_OK;
}
