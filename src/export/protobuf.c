#include "export/protobuf.h"

#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void message_varint(struct message *message, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        vec_push(&message->bytes, (uint8_t)(value | 0x80));
    vec_push(&message->bytes, (uint8_t)value);
}

static void append(struct message *message, uint32_t field, const void *bytes, size_t size)
{
    message_varint(message, (uint64_t)field << 3 | WIRE_BYTES);
    message_varint(message, size);
    vec_reserve(&message->bytes, message->bytes.count + size);
    if (size)
        memcpy(message->bytes.items + message->bytes.count, bytes, size);
    message->bytes.count += size;
}

void message_number(struct message *message, uint32_t field, uint64_t value)
{
    if (!value)
        return;
    message_varint(message, (uint64_t)field << 3 | WIRE_VARINT);
    message_varint(message, value);
}

void message_text(struct message *message, uint32_t field, const char *text)
{
    append(message, field, text, strlen(text));
}

void message_bytes(struct message *message, uint32_t field, const struct message *value)
{
    append(message, field, value->bytes.items, value->bytes.count);
}
