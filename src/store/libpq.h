/* libpq, loaded when a store is first asked for. */
#ifndef STORE_LIBPQ_H
#define STORE_LIBPQ_H

#include "base/late.h"

#include <libpq-fe.h>

#define LIBPQ_FUNCTIONS(X)                                                                         \
    X(PQclear)                                                                                     \
    X(PQcmdTuples)                                                                                 \
    X(PQconnectdbParams)                                                                           \
    X(PQconninfoFree)                                                                              \
    X(PQconninfoParse)                                                                             \
    X(PQerrorMessage)                                                                              \
    X(PQexec)                                                                                      \
    X(PQfinish)                                                                                    \
    X(PQgetResult)                                                                                 \
    X(PQgetisnull)                                                                                 \
    X(PQgetlength)                                                                                 \
    X(PQgetvalue)                                                                                  \
    X(PQntuples)                                                                                   \
    X(PQparameterStatus)                                                                           \
    X(PQputCopyData)                                                                               \
    X(PQputCopyEnd)                                                                                \
    X(PQresultStatus)                                                                              \
    X(PQsendQueryParams)                                                                           \
    X(PQsetNoticeProcessor)                                                                        \
    X(PQsetSingleRowMode)                                                                          \
    X(PQstatus)

struct libpq {
    LIBPQ_FUNCTIONS(LATE_MEMBER)
};
extern struct libpq libpq;

/* Before any of the functions. */
int libpq_load(struct ct_error *err);

#define PQclear              libpq.PQclear
#define PQcmdTuples          libpq.PQcmdTuples
#define PQconnectdbParams    libpq.PQconnectdbParams
#define PQconninfoFree       libpq.PQconninfoFree
#define PQconninfoParse      libpq.PQconninfoParse
#define PQerrorMessage       libpq.PQerrorMessage
#define PQexec               libpq.PQexec
#define PQfinish             libpq.PQfinish
#define PQgetResult          libpq.PQgetResult
#define PQgetisnull          libpq.PQgetisnull
#define PQgetlength          libpq.PQgetlength
#define PQgetvalue           libpq.PQgetvalue
#define PQntuples            libpq.PQntuples
#define PQparameterStatus    libpq.PQparameterStatus
#define PQputCopyData        libpq.PQputCopyData
#define PQputCopyEnd         libpq.PQputCopyEnd
#define PQresultStatus       libpq.PQresultStatus
#define PQsendQueryParams    libpq.PQsendQueryParams
#define PQsetNoticeProcessor libpq.PQsetNoticeProcessor
#define PQsetSingleRowMode   libpq.PQsetSingleRowMode
#define PQstatus             libpq.PQstatus

#endif
