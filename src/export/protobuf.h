/*
 * Messages of Protocol Buffers, written: fields of numbers, texts and other messages. Fields with
 * the value that a reader assumes (0, the empty text) are left out.
 */
#ifndef EXPORT_PROTOBUF_H
#define EXPORT_PROTOBUF_H

#include "base/vec.h"

#include <stdint.h>

struct message {
    VEC(uint8_t) bytes;
};

void message_number(struct message *message, uint32_t field, uint64_t value);
void message_text(struct message *message, uint32_t field, const char *text);

/* A field that holds another message, or numbers packed by message_varint. Never left out. */
void message_bytes(struct message *message, uint32_t field, const struct message *value);

/* A number without its field. */
void message_varint(struct message *message, uint64_t value);

#endif
