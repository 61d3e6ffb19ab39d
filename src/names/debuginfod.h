/*
 * Debug files from the servers that the user's environment names in DEBUGINFOD_URLS; without it
 * nothing is ever asked of the network.
 */
#ifndef NAMES_DEBUGINFOD_H
#define NAMES_DEBUGINFOD_H

#include <stdint.h>

/*
 * The path of the file in debuginfod's own cache, to be freed; NULL when there is none. All calls
 * of a process together wait for 60 seconds at most.
 */
char *debuginfod_fetch(const uint8_t *build_id, uint32_t size);

#endif
