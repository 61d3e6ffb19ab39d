/* What unwinders ask the dynamic linker. */
#ifndef RUNTIME_FIND_OBJECT_H
#define RUNTIME_FIND_OBJECT_H

/* Before any code is edited, and the stand-ins know what they stand in for. */
void find_object_prepare(void);

#endif
