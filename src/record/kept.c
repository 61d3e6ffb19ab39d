#include "record/kept.h"

#include "base/file.h"
#include "profile/merge_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* Keys of facts of the profile: numbers of the arenas that went into it last, and all sums. */
static const char HOLDS[] = "ended.holds", UNKNOWN_TIME[] = "ended.unknown_time",
                  UTIME[] = "ended.utime_s", STIME[] = "ended.stime_s";

/* The whole numbers of `struct totals` come first in it. */
enum { TOTALS_WORDS = offsetof(struct totals, utime_s) / sizeof(uint64_t) };

static void word_key(char *key, size_t room, unsigned word)
{
    snprintf(key, room, "ended.%u", word);
}

char *kept_path(const struct server *s, const char *name)
{
    return must_format("%s/" KEPT_PREFIX "%s", s->folder.path, name);
}

static uint64_t number_of(const struct profile *p, const char *key)
{
    const struct ctp_fact *fact = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, key);
    return fact && fact->type == CTP_U64 ? fact->value : 0;
}

static double seconds_of(const struct profile *p, const char *key)
{
    const struct ctp_fact *fact = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, key);
    return fact && fact->type == CTP_F64 ? profile_fact_double(fact) : 0;
}

static struct kept facts_of(const struct profile *p)
{
    struct kept kept = {.is_there = true, .has_unknown_time = number_of(p, UNKNOWN_TIME) != 0};
    uint64_t words[TOTALS_WORDS] = {0};
    for (unsigned i = 0; i < TOTALS_WORDS; i++) {
        char key[32];
        word_key(key, sizeof key, i);
        words[i] = number_of(p, key);
    }
    memcpy(&kept.totals, words, sizeof words);
    kept.totals.utime_s = seconds_of(p, UTIME);
    kept.totals.stime_s = seconds_of(p, STIME);
    return kept;
}

int kept_read(const struct server *s, struct kept *out, struct ct_error *err)
{
    char *path = kept_path(s, "ctp");
    struct profile profile;
    int status = CT_OK;
    *out = (struct kept){0};
    if (s->folder.path && access(path, F_OK) == 0) {
        status = profile_open(path, &profile, err);
        if (status == CT_OK) {
            *out = facts_of(&profile);
            profile_close(&profile);
        }
    }
    free(path);
    return status;
}

void kept_write_facts(const struct kept *kept, struct profile_writer *w)
{
    uint64_t words[TOTALS_WORDS] = {0};
    memcpy(words, &kept->totals, sizeof words);
    for (unsigned i = 0; i < TOTALS_WORDS; i++) {
        char key[32];
        word_key(key, sizeof key, i);
        if (words[i])
            profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, key, words[i]);
    }
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, UTIME, kept->totals.utime_s);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, STIME, kept->totals.stime_s);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, UNKNOWN_TIME, kept->has_unknown_time);
}

static void write_holds(const struct server *s, struct profile_writer *w)
{
    VEC(char) text = {0};
    for (size_t i = 0; i < s->arenas.count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u ", s->arenas.items[i].number);
        for (const char *c = number; *c && s->arenas.items[i].is_folding; c++)
            vec_push(&text, *c);
    }
    vec_push(&text, '\0');
    profile_fact_string(w, CTP_SCOPE_PROFILE, 0, HOLDS, text.items);
    vec_free(&text);
}

static int merge_part(const struct server *s, const char *part, struct profile_writer *w,
                      struct ct_error *err)
{
    struct merge *merge = merge_begin(&(struct merge_options){0});
    char *path = kept_path(s, "ctp");
    int status = access(path, F_OK) == 0 ? merge_file(merge, path, err) : CT_OK;
    if (status == CT_OK)
        status = merge_file(merge, part, err);
    if (status == CT_OK)
        merge_fill(merge, w);
    merge_free(merge);
    free(path);
    return status;
}

int kept_add(const struct server *s, const char *part, struct ct_error *err)
{
    char *path = kept_path(s, "new");
    struct profile_writer *w;
    int status = profile_writer_open(path, &w, err);
    if (status == CT_OK) {
        status = merge_part(s, part, w, err);
        write_holds(s, w);
        if (status == CT_OK)
            status = profile_writer_commit(w, err);
        else
            profile_writer_abandon(w);
    }
    free(path);
    return status;
}

int kept_put(const struct server *s, struct ct_error *err)
{
    char *from = kept_path(s, "new"), *to = kept_path(s, "ctp");
    int status = rename(from, to) == 0 ? CT_OK : ct_fail_errno(err, errno, "%s: cannot be put", to);
    free(from);
    free(to);
    return status;
}

int kept_join(const struct server *s, const char *rest, struct profile_writer *w,
              struct ct_error *err)
{
    struct merge *merge = merge_begin(&(struct merge_options){.keep_threads = true, .parts = true});
    char *path = kept_path(s, "ctp");
    int status = merge_file(merge, rest, err);
    if (status == CT_OK)
        status = merge_file(merge, path, err);
    if (status == CT_OK)
        merge_fill(merge, w);
    merge_free(merge);
    free(path);
    return status;
}

int kept_settle(struct server *s, struct ct_error *err)
{
    char *path = kept_path(s, "ctp");
    struct profile profile;
    bool has = access(path, F_OK) == 0;
    int status = has ? profile_open(path, &profile, err) : CT_OK;
    free(path);
    if (!has || status != CT_OK)
        return status;
    const struct ctp_fact *fact = profile_find_fact(&profile, CTP_SCOPE_PROFILE, 0, HOLDS);
    const char *text =
        fact && fact->type == CTP_STRING ? profile_string(&profile, (uint32_t)fact->value) : "";
    for (char *end; *text; text = end) {
        unsigned long number = strtoul(text, &end, 10);
        for (size_t i = 0; i < s->arenas.count && end != text; i++)
            s->arenas.items[i].is_folding |= s->arenas.items[i].number == number;
        if (end == text)
            break;
        end += *end == ' ';
    }
    profile_close(&profile);
    server_drop_folded(s);
    return CT_OK;
}

bool kept_copy(const struct server *s, const char *folder)
{
    char *from = kept_path(s, "ctp"), *to = must_format("%s/" KEPT_PREFIX "ctp", folder);
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool good = in >= 0 || errno == ENOENT;
    if (in >= 0) {
        int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        ssize_t sent = 1;
        while (out >= 0 && sent > 0)
            sent = sendfile(out, in, NULL, 1 << 20);
        good = out >= 0 && sent == 0 && close(out) == 0;
        close(in);
    }
    free(from);
    free(to);
    return good;
}
