/*
 * Which Debian package a file came with: the one whose -dbgsym package brings the names of a
 * library without any.
 */
#ifndef NAMES_PACKAGE_H
#define NAMES_PACKAGE_H

/* By the lists of files in dpkg's folder (/var/lib/dpkg/info). To be freed; NULL: none, or no dpkg.
 */
char *package_of(const char *folder, const char *path);

#endif
