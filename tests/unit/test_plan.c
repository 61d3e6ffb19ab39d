/* Edit plans as they are read: damaged ones are refused, and none that is not can hurt. */
#include "../fenced.h"
#include "base/vec.h"
#include "edit/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

static char folder[64];
static struct map_cache cache;
static struct plan whole; /* of a program that is everywhere */

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/plan-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    map_cache_open(&cache);
    return plan_for_file(&cache, "/bin/true", &whole, NULL) == CT_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    char *command = must_format("rm -rf %s", folder);
    plan_close(&whole);
    map_cache_close(&cache);
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

static struct fenced copy(void)
{
    return fence(whole.header, whole.header->file_bytes);
}

static bool is_taken(const struct fenced *f, struct plan *out)
{
    return plan_from_bytes(f->bytes, f->size, out, NULL) == CT_OK;
}

static void mend_hash(struct fenced *f)
{
    struct plan_header *h = (void *)f->bytes;
    h->hash = XXH3_64bits(h + 1, f->size - sizeof *h);
}

static void the_same_bytes_say_the_same(void **state)
{
    (void)state;
    struct fenced f = copy();
    struct plan p;
    assert_true(is_taken(&f, &p));
    assert_true(p.site_count > 100);
    assert_int_equal(p.site_count, whole.site_count);
    assert_memory_equal(p.sites, whole.sites, p.site_count * sizeof *p.sites);
    for (uint32_t i = 1; i < p.site_count; i++)
        assert_true(p.sites[i - 1].offset < p.sites[i].offset);
    unfence(&f);
}

/* Also where the header was made to say that the file is so short. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    const struct plan_section *last = &whole.header->sections[PLAN_UNDECODED];
    uint64_t needed = last->offset + last->count * sizeof(uint32_t);
    for (size_t size = 0; size < whole.header->file_bytes; size += 8) {
        struct fenced f = fence(whole.header, size);
        struct plan p;
        assert_false(is_taken(&f, &p));
        if (size >= sizeof(struct plan_header)) {
            ((struct plan_header *)(void *)f.bytes)->file_bytes = size;
            mend_hash(&f);
            assert_int_equal(is_taken(&f, &p), size >= needed);
        }
        unfence(&f);
    }
}

static void a_changed_byte_is_noticed(void **state)
{
    (void)state;
    struct fenced f = copy();
    struct plan p;
    for (size_t at = sizeof(struct plan_header); at < f.size; at += 61) {
        f.bytes[at] ^= 1;
        assert_false(is_taken(&f, &p));
        f.bytes[at] ^= 1;
    }
    assert_true(is_taken(&f, &p));
    unfence(&f);
}

static void sections_outside_the_file_are_refused(void **state)
{
    (void)state;
    struct fenced f = copy();
    struct plan_header *h = (void *)f.bytes;
    const uint64_t offsets[] = {0, 8, 1 + sizeof *h, f.size + 8, UINT64_MAX - 7};
    struct plan p;
    for (unsigned i = 0; i < PLAN_SECTIONS; i++) {
        struct plan_section was = h->sections[i];
        for (size_t k = 0; k < sizeof offsets / sizeof offsets[0]; k++) {
            h->sections[i].offset = offsets[k];
            assert_false(is_taken(&f, &p));
        }
        h->sections[i] = was;
        for (uint64_t bit = 20; bit < 64; bit++) { /* more than there can be */
            h->sections[i].count = was.count + (UINT64_C(1) << bit);
            assert_false(is_taken(&f, &p));
        }
        h->sections[i] = was;
    }
    assert_true(is_taken(&f, &p));
    unfence(&f);
}

/* Sites are printed, whatever they say of code that is not there. */
static void sites_that_lie_do_not_hurt(void **state)
{
    (void)state;
    struct fenced f = copy();
    struct plan p;
    FILE *nowhere = fopen("/dev/null", "w");
    assert_true(is_taken(&f, &p));
    for (uint32_t i = 0; i < p.site_count; i++) {
        struct plan_site *s = (struct plan_site *)&p.sites[i];
        memset(s, 0xff, sizeof *s);
        s->code = i % 3 == 0 ? UINT32_MAX : (uint32_t)p.header->sections[PLAN_CODE].count - i % 3;
        s->code_bytes = 0;
        s->flags = i % 2 ? SITE_MAKES_ROOM : SITE_MAKES_ROOM | SITE_MAY_STAY;
    }
    mend_hash(&f);
    assert_true(is_taken(&f, &p));
    plan_list(&p, nowhere);
    plan_print(&p, "liar", nowhere);
    fclose(nowhere);
    unfence(&f);
}

static void assert_descriptor_has(const struct plan *p)
{
    size_t bytes = p->header->file_bytes;
    char *read_back = must_realloc(NULL, bytes, 1);
    int fd = plan_descriptor(p);
    assert_true(fd >= 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), bytes);
    assert_int_equal(pread(fd, read_back, bytes, 0), bytes);
    assert_memory_equal(read_back, p->header, bytes);
    close(fd);
    free(read_back);
}

static void a_descriptor_has_the_plan_whatever_has_become_of_its_file(void **state)
{
    (void)state;
    struct plan p, again;
    assert_true(plan_is_cached(&cache, "/bin/true"));
    assert_int_equal(plan_for_file(&cache, "/bin/true", &p, NULL), CT_OK);
    assert_non_null(p.path);
    assert_descriptor_has(&p);
    char *other = must_format("%s/other", folder);
    FILE *file = fopen(other, "w");
    fputs("not a plan", file);
    fclose(file);
    assert_int_equal(rename(other, p.path), 0);
    assert_descriptor_has(&p);
    assert_false(plan_is_cached(&cache, "/bin/true"));
    assert_int_equal(plan_for_file(&cache, "/bin/true", &again, NULL), CT_OK); /* made anew */
    assert_int_equal(again.header->hash, p.header->hash);
    assert_int_equal(unlink(again.path), 0);
    assert_descriptor_has(&p);
    plan_close(&p);
    plan_close(&again);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bytes_say_the_same),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_changed_byte_is_noticed),
        cmocka_unit_test(sections_outside_the_file_are_refused),
        cmocka_unit_test(sites_that_lie_do_not_hurt),
        cmocka_unit_test(a_descriptor_has_the_plan_whatever_has_become_of_its_file),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
