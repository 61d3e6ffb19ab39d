/*
 * The editor: changes the code of modules after a plan (edit/plan_format.h), so that something is
 * done at each of their call sites; and puts the original code back. What is done there, and which
 * modules are edited, is the engine's affair.
 */
#ifndef RUNTIME_EDIT_H
#define RUNTIME_EDIT_H

struct edit_request;
struct stub_writer;

/* Asks for the module's plan and applies it. What cannot be changed is left as it is, and counted.
 */
void edit_module(struct edit_request *request, const struct stub_writer *writer);

#endif
