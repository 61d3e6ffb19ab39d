/* Before the program starts: the maps of its modules, so that it need not wait for them. */
#ifndef RECORD_PREPARE_H
#define RECORD_PREPARE_H

/*
 * Makes the maps that are not in the cache yet, of the program at `path` and of the libraries that
 * it is linked with, on all processors. What cannot be made now is no error: the server tries again
 * when the program asks for it.
 */
void prepare_maps(const char *path);

#endif
