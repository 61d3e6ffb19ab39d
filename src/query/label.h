/*
 * Labels: what a frame is called, and which frames are the same thing.
 *
 * A profile has a frame for every place in code. Views do not care from which of its lines a
 * function called, so frames of one function share a label: the same name, in the same module,
 * declared at the same line or, where that is not known, at the same offset; modules are the same
 * if path and build-id are. A function that was inlined and the same one called have one label
 * therefore. Without a name it is the place itself, module and offset. Gaps (why a walk ended) have
 * a label for each reason; they are not code, and nothing that asks for functions or modules ever
 * finds them.
 *
 * This is the one place where names for people are made: demangled unless asked otherwise, and a
 * frame stands for its function and all that was inlined there, unless that is folded.
 */
#ifndef QUERY_LABEL_H
#define QUERY_LABEL_H

#include "base/strings.h"
#include "profile/profile.h"
#include "query/name_parts.h"

enum label_kind {
    LABEL_FUNCTION,
    LABEL_PLACE,   /* module+0x1234, or an address */
    LABEL_GAP,     /* callers are missing here */
    LABEL_NOTHING, /* cost of a thread whose context is not known at all */
    LABEL_FOLDED,  /* what was folded away and had no caller left to fold it into */
    LABEL_GROUP,   /* a thread, process or phase above its contexts */
    LABEL_TEXT,    /* known by its name only: LABEL_BY_NAME */
    LABEL_IDLE,    /* threads that only waited; their number is `number` */
    LABEL_WAITING, /* where threads wait for work */
};

enum label_identity {
    LABEL_BY_CODE,    /* as above */
    LABEL_BY_NAME,    /* by the name alone, with `;` and controls replaced, as folded stacks need */
    LABEL_BY_LINE,    /* as by code, and every source line of a function apart */
    LABEL_BY_ADDRESS, /* as by code, and every instruction apart */
};

struct label_options {
    enum label_identity identity;
    bool keep_mangled; /* mangled names */
    bool fold_inlined; /* what was inlined is part of the function that it was inlined into */
};

struct label {
    uint32_t kind;
    uint32_t module; /* or CTP_NONE */
    uint32_t name;   /* in `texts` */
    uint64_t
        number;     /* tells labels of one name apart; offset, gap or index of the group, by kind */
    uint64_t place; /* LABEL_BY_LINE: file (in `texts`) << 32 | line; LABEL_BY_ADDRESS: offset */
};

/* A function whose declaration is known has this in `number`, and file and line below it. */
#define LABEL_DECLARED (UINT64_C(1) << 63)

struct labels {
    const struct profile *profile;
    struct label_options options;
    VEC(struct label) items;
    uint32_t *first_of_frame; /* by index of the frame, and one more: its run in of_frames */
    VEC(uint32_t) of_frames;  /* labels, the outermost of each frame first */
    uint32_t *function_names; /* by index of the function: in `texts` */
    uint32_t *modules;        /* the first module that is the same as this one */
    uint32_t *slots;          /* open addressing; label + 1, 0 is free */
    size_t slot_count;
    struct string_pool texts;
};

void labels_init(struct labels *labels, const struct profile *profile,
                 const struct label_options *options);
void labels_free(struct labels *labels);

/* What a frame of the profile stands for, outermost first: never nothing. */
struct label_run {
    const uint32_t *labels;
    uint32_t count;
};
static inline struct label_run labels_of_frame(const struct labels *labels, uint32_t frame)
{
    uint32_t first = labels->first_of_frame[frame];
    return (struct label_run){labels->of_frames.items + first,
                              labels->first_of_frame[frame + 1] - first};
}

/* The label of one of the kinds that no frame has. `number` is the index of a group; `name` is what
 * it is called when names are all that counts. */
uint32_t labels_special(struct labels *labels, enum label_kind kind, uint64_t number,
                        const char *name);

/* The name without its module, into `room` bytes if it must be made; never cut within a name of the
 * profile, which is returned as it is. */
const char *label_name(const struct labels *labels, uint32_t label, char *text, size_t room);

/* The file name of the module when it is not a part of the name already, else "". */
const char *label_module(const struct labels *labels, uint32_t label);

/* The same, also when it is a part of the name: for programs, which look for it in one place. */
const char *label_module_file(const struct labels *labels, uint32_t label);

/*
 * For code without a name, the nearest function before it in its module that the profile knows the
 * name of, "" when there is none. For people only: it says where to look, not what it is.
 */
const char *label_neighbour(const struct labels *labels, uint32_t label);

/* Whether it is code that has a name that people may ask for. */
bool label_is_code(const struct labels *labels, uint32_t label);

/* How well a label is what was typed, with or without " [module]" behind it. Only code is. */
enum name_match label_match(const struct labels *labels, uint32_t label, const char *typed);

/* The part of a path behind the last slash; all of it where that would be nothing. */
const char *path_file(const char *path);

#endif
