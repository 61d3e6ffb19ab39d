#include "view/serve.h"

#include "profile/time_range.h"
#include "query/view.h"
#include "view/closer_look.h"
#include "view/connections.h"
#include "view/microhttpd.h"
#include "view/page_assets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

enum {
    PROFILES_MAX = 2,
    TOKEN_BYTES = 16,
    TIMEOUT_SECONDS = 20,      /* of a connection that says nothing */
    REQUEST_BYTES_MAX = 65536, /* of one connection: a longer address is refused */
};

struct page_server {
    struct MHD_Daemon *daemon;
    const struct profile *profiles;
    size_t count;
    struct page_options options;
    struct {
        char *bytes;
        size_t size;
    } data[PROFILES_MAX]; /* what a page begins with */
    char token[2 * TOKEN_BYTES + 1];
    char host[32], local_host[32]; /* what a browser calls this server */
    char *address;
    struct connections connections;
};

/* ---- Answers --------------------------------------------------------------------------------- */

/* Nothing but the server's own files may run or be asked for, and no page may frame, no cache keep
 * it. */
static void add_headers(struct MHD_Response *response, const char *type)
{
    static const char *const headers[][2] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
         "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    MHD_add_response_header(response, "Content-Type", type);
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              const void *bytes, size_t size, enum MHD_ResponseMemoryMode memory)
{
    /* The bytes are not written to, whatever the type says. */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, (void *)(uintptr_t)bytes, memory);
    if (!response)
        return MHD_NO;
    add_headers(response, type);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status,
                                   const char *text)
{
    return answer(connection, status, "text/plain; charset=utf-8", text, strlen(text),
                  MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result answer_asset(struct MHD_Connection *connection, const char *type,
                                    const struct page_asset *asset)
{
    return answer(connection, MHD_HTTP_OK, type, asset->bytes, asset->size, MHD_RESPMEM_PERSISTENT);
}

/* ---- Data ------------------------------------------------------------------------------------ */

typedef int write_fn(const struct profile *profile, const struct page_options *options, FILE *out,
                     struct ct_error *err);

static int make_data(write_fn *write, const struct profile *profile,
                     const struct page_options *options, char **bytes, size_t *size,
                     struct ct_error *err)
{
    FILE *memory = open_memstream(bytes, size);
    if (!memory)
        return ct_fail(err, "%s: no memory for the page", profile->name);
    int status = write(profile, options, memory, err);
    if (fclose(memory) != 0 && status == CT_OK)
        status = ct_fail(err, "%s: no memory for the page", profile->name);
    if (status != CT_OK)
        free(*bytes);
    return status;
}

static const char *argument(struct MHD_Connection *connection, const char *key)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, key);
    return value && *value ? value : NULL;
}

/* Whether the time of a request, where it has one, is one. */
static bool take_time(struct MHD_Connection *connection, const char *key, bool *is_given,
                      uint64_t *us)
{
    const char *text = argument(connection, key);
    *is_given = text;
    return !text || time_range_parse(text, us);
}

/* The same profile, as it is in a range of time. */
static int open_part(const struct profile *profile, const struct time_range *range,
                     struct profile *out, struct ct_error *err)
{
    CT_TRY(profile_from_bytes(profile->bytes, profile->size, profile->name, out, err));
    int status = profile_restrict(out, range, NULL, err);
    if (status != CT_OK)
        profile_close(out);
    return status;
}

/* What was made when the server began, or a closer look at a part. */
static enum MHD_Result answer_data(const struct page_server *server,
                                   struct MHD_Connection *connection, write_fn *write)
{
    static const char type[] = "application/octet-stream";
    const char *number = argument(connection, "profile");
    size_t index = number && strcmp(number, "1") == 0;
    if (index >= server->count)
        return answer_text(connection, MHD_HTTP_NOT_FOUND, "there is no such profile\n");
    struct closer_look wanted = {.thread = argument(connection, "thread"),
                                 .process = argument(connection, "process"),
                                 .phase = argument(connection, "phase"),
                                 .path = argument(connection, "zoom")};
    struct time_range range = {0};
    if (!take_time(connection, "from", &range.has_from, &range.from_us) ||
        !take_time(connection, "to", &range.has_to, &range.to_us))
        return answer_text(connection, MHD_HTTP_BAD_REQUEST, "this is not a time\n");
    if (write == page_data_write && !wanted.thread && !wanted.process && !wanted.phase &&
        !wanted.path && !time_range_is_given(&range))
        return answer(connection, MHD_HTTP_OK, type, server->data[index].bytes,
                      server->data[index].size, MHD_RESPMEM_PERSISTENT);
    struct ct_error err;
    struct profile profile;
    char *bytes;
    size_t size;
    struct page_options options = server->options;
    options.thread = wanted.thread;
    options.process = wanted.process;
    options.phase = wanted.phase;
    if (open_part(&server->profiles[index], &range, &profile, &err) != CT_OK)
        return answer_text(connection, MHD_HTTP_BAD_REQUEST, err.text);
    if (closer_look_begin(&profile, &wanted, &options.cut, &err) != CT_OK) {
        profile_close(&profile);
        return answer_text(connection, MHD_HTTP_BAD_REQUEST, err.text);
    }
    int status = make_data(write, &profile, &options, &bytes, &size, &err);
    closer_look_end(&options.cut);
    profile_close(&profile);
    if (status != CT_OK)
        return answer_text(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, err.text);
    return answer(connection, MHD_HTTP_OK, type, bytes, size, MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result answer_profiles(const struct page_server *server,
                                       struct MHD_Connection *connection)
{
    char text[8];
    snprintf(text, sizeof text, "%zu", server->count);
    return answer(connection, MHD_HTTP_OK, "application/json", text, strlen(text),
                  MHD_RESPMEM_MUST_COPY);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* In time that does not tell how much of it is right. */
static bool is_equal(const char *a, const char *b, size_t size)
{
    unsigned different = 0;
    for (size_t i = 0; i < size; i++)
        different |= (unsigned char)a[i] ^ (unsigned char)b[i];
    return different == 0;
}

/* The part of the address behind "/TOKEN/", or NULL if it does not have that. */
static const char *behind_token(const struct page_server *server, const char *url)
{
    size_t length = sizeof server->token - 1;
    if (strlen(url) < length + 2 || url[0] != '/' || url[length + 1] != '/' ||
        !is_equal(url + 1, server->token, length))
        return NULL;
    return url + length + 2;
}

static bool is_for_us(const struct page_server *server, struct MHD_Connection *connection)
{
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    return host && (strcmp(host, server->host) == 0 || strcmp(host, server->local_host) == 0);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request)
{
    const struct page_server *server = context;
    const char *path = behind_token(server, url);
    connections_asked(connection);
    (void)version, (void)upload, (void)request;
    if (!path || !is_for_us(server, connection))
        return answer_text(connection, MHD_HTTP_FORBIDDEN, "forbidden\n");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        if (*upload_size) { /* read on until it ends */
            *upload_size = 0;
            return MHD_YES;
        }
        return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    }
    if (strcmp(path, "") == 0)
        return answer_asset(connection, "text/html; charset=utf-8", &page_served_html);
    if (strcmp(path, "page.js") == 0)
        return answer_asset(connection, "text/javascript; charset=utf-8", &page_script);
    if (strcmp(path, "page.css") == 0)
        return answer_asset(connection, "text/css; charset=utf-8", &page_style);
    if (strcmp(path, "profiles") == 0)
        return answer_profiles(server, connection);
    if (strcmp(path, "data") == 0)
        return answer_data(server, connection, page_data_write);
    if (strcmp(path, "flat") == 0)
        return answer_data(server, connection, page_flat_write);
    return answer_text(connection, MHD_HTTP_NOT_FOUND, "there is nothing here\n");
}

/* What the library would print of broken requests is not printed. */
static void say_nothing(void *context, const char *format, va_list arguments)
{
    (void)context, (void)format, (void)arguments;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static int make_token(struct page_server *server, struct ct_error *err)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return ct_fail_errno(err, errno, "no random numbers for the address");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(server->token + 2 * i, 3, "%02x", bytes[i]);
    return CT_OK;
}

static int listen_at(struct page_server *server, uint16_t port, struct ct_error *err)
{
    struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CT_TRY(libmicrohttpd_load(err));
    server->daemon = MHD_start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle,
        server, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL, MHD_OPTION_SOCK_ADDR,
        (struct sockaddr *)&here, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_NOTIFY_CONNECTION, connections_notify, &server->connections,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES_MAX, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        server->daemon ? MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info)
        return ct_fail(err, "port %u of 127.0.0.1 cannot be served: %s", (unsigned)port,
                       strerror(errno));
    snprintf(server->host, sizeof server->host, "127.0.0.1:%u", (unsigned)info->port);
    snprintf(server->local_host, sizeof server->local_host, "localhost:%u", (unsigned)info->port);
    server->address = must_format("http://%s/%s/", server->host, server->token);
    return CT_OK;
}

int page_server_open(const struct profile *profiles, size_t count,
                     const struct page_options *options, uint16_t port, struct page_server **out,
                     struct ct_error *err)
{
    struct page_server *server = must_calloc(1, sizeof *server);
    *server = (struct page_server){.profiles = profiles, .options = *options};
    server->options.without_flat = true;
    int status = make_token(server, err);
    for (; status == CT_OK && server->count < count; server->count++) {
        size_t i = server->count;
        status = make_data(page_data_write, &profiles[i], &server->options, &server->data[i].bytes,
                           &server->data[i].size, err);
        if (status != CT_OK)
            break;
    }
    if (status == CT_OK)
        status = listen_at(server, port, err);
    if (status != CT_OK) {
        page_server_close(server);
        return status;
    }
    *out = server;
    return CT_OK;
}

const char *page_server_address(const struct page_server *server)
{
    return server->address;
}

void page_server_close(struct page_server *server)
{
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    for (size_t i = 0; i < server->count; i++)
        free(server->data[i].bytes);
    free(server->address);
    free(server);
}
