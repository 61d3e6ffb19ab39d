/*
 * The editor: changes the code of modules after a plan (edit/plan_format.h), so that something is
 * done at each of their call sites; and puts the original code back. What is done there, and which
 * modules are edited, is the engine's affair.
 */
#ifndef RUNTIME_EDIT_H
#define RUNTIME_EDIT_H

#include "edit/plan_format.h"

#include <stdbool.h>

struct edit_request;
struct stub_writer;

/* Asks for the module's plan and applies it. What cannot be changed is left as it is, and counted.
 */
void edit_module(struct edit_request *request, const struct stub_writer *writer);

/* --- for engines that edit in ways of their own ------------------------------------------------
 */

/* Opens the module's file, and asks for its plan; false: there is no file. Then: is there a plan?
 */
bool edit_ask_plan(struct edit_request *request);
bool edit_is_plan(const struct edit_request *request);
void edit_forget_plan(struct edit_request *request, bool is_used);

/* A section of the plan, if all of it is there and it has so many items. */
const void *edit_section(const struct edit_request *request, enum plan_section_kind kind,
                         uint64_t item_bytes, uint64_t least);

/* Is all of this in code that is loaded? */
bool edit_is_code(const struct edit_request *request, uint64_t start, uint64_t end);

/* Makes the module's code writable, or as it was. */
bool edit_protect(const struct edit_request *request, bool writable);

#endif
