/* The part of a stub that is the same whatever is done there; the site itself. */
#ifndef RUNTIME_EDIT_STUBS_H
#define RUNTIME_EDIT_STUBS_H

#include "runtime/edit/edited_module.h"

struct emitter;

/*
 * Code that stubs call and that runs with signals: no sample may come there, since no walk
 * gets out of it. Such functions call only each other.
 */
#define STUB_TEXT __attribute__((section("stub_text"), used, noinline))

/* What an engine writes into stubs. */
struct stub_writer {
    /* The most bytes that `site` ever writes. */
    uint32_t (*most_bytes)(const struct plan_site *site);

    /* Is a site left as it is, because nothing is to be done there? NULL: none is. */
    bool (*leaves_alone)(const struct plan_site *site);

    /*
     * Does what is called at a site come back to its stub? NULL: nothing does. The site is a jump
     * then. Where the stub begins there is room for the return address if the site is indirect,
     * below its target, and nothing otherwise.
     */
    bool (*comes_back)(const struct edited_module *module, const struct plan_site *site);

    /* Writes what all stubs of a module share, at their start. */
    void (*common)(struct emitter *emitter);

    /*
     * Writes what is done at a site, and goes on to the callee. At an indirect site its target is
     * at the top of the stack, and is to be taken from there.
     */
    void (*site)(struct emitter *emitter, const struct edited_module *module,
                 const struct plan_site *site);
};

/*
 * Writes the stub of a site at `at` and points the site at it. Returns where the stub ends; NULL:
 * it could not be described, and the site is as it was.
 */
uint8_t *stub_write(uint8_t *at, const struct edited_module *module, uint32_t index,
                    const struct stub_writer *writer);

/* The most bytes that takes, but for what the writer writes. */
uint32_t stub_most_bytes(const struct plan_site *site);

/* The code that stubs share. */
uint8_t *stub_write_common(uint8_t *at, struct edited_module *module,
                           const struct stub_writer *writer);

#endif
