/*
 * Labels: what a frame is called, and which frames are the same thing.
 *
 * A profile has a frame for every place in code. Views do not care from which of its lines a
 * function called, so frames of one function share a label: the same name at the same offset of the
 * same module, where modules are the same if path and build-id are. Without a function it is the
 * place itself, module and offset. Gaps (why a walk ended) have a label for each reason; they are
 * not code, and nothing that asks for functions or modules ever finds them.
 */
#ifndef REPORT_LABEL_H
#define REPORT_LABEL_H

#include "base/strings.h"
#include "profile/profile.h"

enum label_kind {
    LABEL_FUNCTION,
    LABEL_PLACE,   /* module+0x1234, or an address */
    LABEL_GAP,     /* callers are missing here */
    LABEL_NOTHING, /* cost of a thread whose context is not known at all */
    LABEL_FOLDED,  /* what was folded away and had no caller left to fold it into */
    LABEL_GROUP,   /* a thread, process or phase above its contexts */
    LABEL_TEXT,    /* known by its name only: LABEL_BY_NAME */
};

enum label_identity {
    LABEL_BY_CODE, /* as above */
    LABEL_BY_NAME, /* by the name alone, with `;` and controls replaced, as folded stacks need */
};

struct label {
    uint32_t kind;
    uint32_t module; /* or CTP_NONE */
    uint32_t name;   /* string of the profile; of `texts` for LABEL_TEXT */
    uint64_t number; /* offset, gap or index of the group, by kind */
};

struct labels {
    const struct profile *profile;
    enum label_identity identity;
    VEC(struct label) items;
    uint32_t *of_frame; /* by index of the frame */
    uint32_t *modules;  /* the first module that is the same as this one */
    uint32_t *slots;    /* open addressing; label + 1, 0 is free */
    size_t slot_count;
    struct string_pool texts;
};

void labels_init(struct labels *labels, const struct profile *profile,
                 enum label_identity identity);
void labels_free(struct labels *labels);

/* The label of a function that was inlined into a frame; CTP_NONE when it has no name. */
uint32_t labels_function(struct labels *labels, uint32_t function);

/* The label of one of the kinds that no frame has. `number` is the index of a group; `name` is what
 * it is called when names are all that counts. */
uint32_t labels_special(struct labels *labels, enum label_kind kind, uint64_t number,
                        const char *name);

/* The name without its module, into `room` bytes if it must be made; never cut within a name of the
 * profile, which is returned as it is. */
const char *label_name(const struct labels *labels, uint32_t label, char *text, size_t room);

/* The file name of the module when it is not a part of the name already, else "". */
const char *label_module(const struct labels *labels, uint32_t label);

/* Whether it is code that has a name that people may ask for. */
bool label_is_code(const struct labels *labels, uint32_t label);

/* The part of a path behind the last slash; all of it where that would be nothing. */
const char *path_file(const char *path);

#endif
