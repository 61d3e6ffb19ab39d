#include "profile/merge_files.h"

#include <errno.h>
#include <string.h>

static int add_lines(struct file_list *list, FILE *from, const char *name, struct ct_error *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, from)) != -1) {
        if (length && line[length - 1] == '\n')
            line[--length] = '\0';
        if (length)
            vec_push(&list->paths, must_strdup(line));
    }
    free(line);
    return ferror(from) ? ct_fail_errno(err, errno, "%s: cannot be read", name) : CT_OK;
}

int file_list_add(struct file_list *list, const char *argument, struct ct_error *err)
{
    if (*argument != '@') {
        vec_push(&list->paths, must_strdup(argument));
        return CT_OK;
    }
    if (strcmp(argument, "@-") == 0)
        return add_lines(list, stdin, "standard input", err);
    FILE *from = fopen(argument + 1, "r");
    if (!from)
        return ct_fail_errno(err, errno, "%s: cannot be read", argument + 1);
    int status = add_lines(list, from, argument + 1, err);
    fclose(from);
    return status;
}

void file_list_free(struct file_list *list)
{
    for (size_t i = 0; i < list->paths.count; i++)
        free(list->paths.items[i]);
    vec_free(&list->paths);
}

int merge_file(struct merge *merge, const char *path, struct ct_error *err)
{
    struct profile profile;
    CT_TRY(profile_open(path, &profile, err));
    int status = profile_validate(&profile, err);
    if (status == CT_OK)
        status = merge_add(merge, &profile, err);
    profile_close(&profile);
    return status;
}
