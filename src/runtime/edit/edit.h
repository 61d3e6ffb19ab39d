/*
 * The editor: changes the code of modules after a plan (edit/plan_format.h), so that something is
 * done at each of their call sites; and puts the original code back. What is done there, and which
 * modules are edited, is the engine's affair.
 */
#ifndef RUNTIME_EDIT_H
#define RUNTIME_EDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Code that stubs call and that runs with signals: no sample may come there, since nobody could
 * walk out of it. Such functions call only each other.
 */
#define STUB_TEXT __attribute__((section("stub_text"), used, noinline))

struct emitter;
struct edited_module;
struct plan_site;
struct thread;

/* What an engine writes into stubs. */
struct stub_writer {
    /* The most bytes that `site` ever writes. */
    uint32_t (*most_bytes)(const struct plan_site *site);

    /* Is a site left as it is, because nothing is to be done there? NULL: none is. */
    bool (*leaves_alone)(const struct plan_site *site);

    /* Writes what all stubs of a module share, at their start. */
    void (*common)(struct emitter *emitter);

    /*
     * Writes what is done at a site, and goes on to the callee. At an indirect site its target is
     * at the top of the stack, and is to be taken from there.
     */
    void (*site)(struct emitter *emitter, const struct edited_module *module,
                 const struct plan_site *site);
};

/* A module that nobody runs yet. */
struct edit_request {
    uint64_t base;
    uint32_t module_id;
    const void *headers; /* its program headers */
    unsigned header_count;
    uint64_t bias; /* what is added to their addresses */
    const char *path;
    /* The editor's own: its plan, and its file, open. */
    const void *plan;
    size_t plan_bytes;
    int file;
};

/* Asks for the module's plan and applies it. What cannot be changed is left as it is, and counted.
 */
void edit_module(struct edit_request *request, const struct stub_writer *writer);

#endif
