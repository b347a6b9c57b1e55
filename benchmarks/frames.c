/* The wire protocols of the load generator whose answers are few: FastStreamDB, which answers no message, and Pravega,
 * which answers blocks of them. */
#define _GNU_SOURCE
#include "wires.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- FastStreamDB ---- */

enum { FS_PING, FS_CREATE, FS_SINGLE = 3, FS_ALL = 5, FS_TAKE = 7, FS_PEEK, FS_CHECK, FS_PONG, FS_CONTENTS, FS_STATE };
enum { FS_STATE_BYTES = 12, FS_CONTENTS_BYTES = 8 };

static void put_u32s(char *into, int count, const uint32_t *values) {
    for (int i = 0; i < count; i++)
        for (int byte = 0; byte < 4; byte++) into[4 * i + byte] = (char)(values[i] >> 8 * byte);
}

static uint32_t get_u32(const char *from) {
    const unsigned char *byte = (const unsigned char *)from;
    return (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
}

/* The stream that messages go to, or with many of them the last one. */
static uint32_t fs_stream(const struct job *job) {
    return job->mode == TOPICS ? (uint32_t)(job->messages - 1) : (uint32_t)atol(job->topic);
}

static void fs_expect_state(const char *reply, uint32_t stream) {
    char expected[FS_STATE_BYTES];
    put_u32s(expected, 3, (uint32_t[]){FS_STATE, stream, 1});
    if (memcmp(reply, expected, sizeof expected)) fail("stream %u is not there", stream);
}

static void fs_open(struct connection *c, const struct job *job) {
    char request[16], reply[FS_STATE_BYTES];
    if ((job->mode != PUBLISH && job->mode != CONFIRM) || c->index) return;
    put_u32s(request, 4, (uint32_t[]){FS_CREATE, fs_stream(job), FS_CHECK, fs_stream(job)});
    send_text(c->fd, request, sizeof request);
    receive_bytes(c->fd, reply, sizeof reply);
    fs_expect_state(reply, fs_stream(job));
}

static void fs_prepare_contents(struct connection *c, const struct job *job) {
    c->request_bytes = 8;
    c->request = allocate(c->request_bytes);
    put_u32s(c->request, 2, (uint32_t[]){job->mode == TAKE ? FS_TAKE : FS_PEEK, fs_stream(job)});
    c->requests_max = 1; /* for everything that the stream holds */
    c->reply_bytes = job->size;
    char *message = allocate(job->size);
    fill_payload(message, job->size);
    c->pattern = repeated(message, job->size);
    free(message);
}

static void fs_prepare_ping(struct connection *c) {
    c->request_bytes = c->reply_bytes = 4;
    c->request = allocate(4);
    put_u32s(c->request, 1, (uint32_t[]){FS_PING});
    char pong[4];
    put_u32s(pong, 1, (uint32_t[]){FS_PONG});
    c->pattern = repeated(pong, sizeof pong);
}

/* Nothing of this is answered. The question behind it reads, so its answer comes when all before it is on disk. */
static void fs_prepare(struct connection *c, const struct job *job) {
    if (job->mode == READ || job->mode == TAKE) {
        fs_prepare_contents(c, job);
        return;
    }
    if (job->mode == PING) {
        fs_prepare_ping(c);
        return;
    }
    if (job->mode == CONFIRM) {
        fs_prepare_ping(c);
        free(c->request);
        c->request_bytes = 12 + job->size + 4;
        c->request = allocate(c->request_bytes);
        put_u32s(c->request, 3, (uint32_t[]){FS_SINGLE, fs_stream(job), (uint32_t)job->size});
        fill_payload(c->request + 12, job->size);
        put_u32s(c->request + 12 + job->size, 1, (uint32_t[]){FS_PING});
        return;
    }
    if (job->mode == TOPICS) {
        c->request_bytes = 8 * (size_t)job->messages;
        c->request = allocate(c->request_bytes);
        for (long i = 0; i < job->messages; i++)
            put_u32s(c->request + 8 * i, 2, (uint32_t[]){FS_CREATE, (uint32_t)i});
        c->requests_max = 1;
    } else {
        size_t head = job->mode == PUBLISH ? 12 : 8;
        c->request_bytes = head + job->size;
        c->request = allocate(c->request_bytes);
        if (job->mode == PUBLISH) put_u32s(c->request, 3, (uint32_t[]){FS_SINGLE, fs_stream(job), (uint32_t)job->size});
        else put_u32s(c->request, 2, (uint32_t[]){FS_ALL, (uint32_t)job->size});
        fill_payload(c->request + head, job->size);
    }
    c->window = c->requests_max;
    c->closing_bytes = 8;
    c->closing = allocate(c->closing_bytes);
    put_u32s(c->closing, 2, (uint32_t[]){FS_CHECK, fs_stream(job)});
}

/* Keep bytes until there are `wanted` of them; returns how many it took. */
static size_t collect(struct connection *c, const char *data, size_t bytes, size_t wanted) {
    size_t part = wanted - c->line_bytes < bytes ? wanted - c->line_bytes : bytes;
    memcpy(c->line + c->line_bytes, data, part);
    c->line_bytes += part;
    return part;
}

static void fs_receive(struct connection *c, const struct job *job, const char *data, size_t bytes) {
    if (job->mode == PING || job->mode == CONFIRM) {
        receive_repeated(c, data, bytes, frame_differs);
    } else if (job->mode == READ || job->mode == TAKE) {
        if (c->line_bytes < FS_CONTENTS_BYTES) {
            size_t part = collect(c, data, bytes, FS_CONTENTS_BYTES);
            data += part, bytes -= part;
            if (c->line_bytes < FS_CONTENTS_BYTES) return;
            if (get_u32(c->line) != FS_CONTENTS || get_u32(c->line + 4) != (uint32_t)(c->share * (long)job->size))
                fail("packet %u of %u bytes, not %ld messages", get_u32(c->line), get_u32(c->line + 4), c->share);
        }
        receive_repeated(c, data, bytes, frame_differs);
    } else {
        collect(c, data, bytes, FS_STATE_BYTES);
        if (c->line_bytes < FS_STATE_BYTES) return;
        fs_expect_state(c->line, fs_stream(job));
        c->answered = c->requests_max;
        c->messages = c->share;
    }
}

/* ---- Pravega ---- */

enum { PV_EVENT, PV_SETUP_APPEND, PV_APPEND_SETUP, PV_BEGIN_BLOCK, PV_END_BLOCK, PV_DATA_APPENDED = 7 };
enum { PV_READ_SEGMENT = 9, PV_SEGMENT_READ, PV_CREATE_SEGMENT = 20, PV_SEGMENT_CREATED, PV_SEGMENT_EXISTS = 52 };
enum { PV_HEADER_BYTES = 8, PV_WRITER_BYTES = 16, PV_BLOCK_BYTES = 36, PV_APPENDED_BYTES = 32, PV_OFFSET_AT = 24 };
enum { PV_BLOCK_ROOM = 32 << 10, PV_READ_BYTES = 2 << 20, PV_READ_REST_BYTES = 10, PV_NAME_BYTES_MAX = 255 };

static size_t get_big_endian(const char *from, int bytes) {
    size_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | (unsigned char)from[i];
    return value;
}

static char *pv_header(char *into, int type, size_t bytes) {
    put_big_endian(into, (size_t)type, 4);
    put_big_endian(into + 4, bytes, 4);
    return into + PV_HEADER_BYTES;
}

static char *pv_name(char *into, const char *name) {
    size_t bytes = strlen(name);
    put_big_endian(into, bytes, 2);
    memcpy(into + 2, name, bytes);
    return into + 2 + bytes;
}

/* Another writer for each run and connection: each begins at level 0. */
static void pv_writer(char *into, const struct connection *c) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    put_big_endian(into, (size_t)now.tv_sec << 30 | (size_t)now.tv_nsec, 8);
    put_big_endian(into + 8, (size_t)getpid() << 32 | (size_t)c->index, 8);
}

/* Whole events up to some 32 KiB: what the next block of one writer is, and what a reader gets back. */
static size_t pv_event_bytes(const struct job *job) { return PV_HEADER_BYTES + job->size; }

static size_t pv_block_bytes(const struct job *job) {
    size_t events = job->mode == PING ? 1 : PV_BLOCK_ROOM / pv_event_bytes(job);
    return (events ? events : 1) * pv_event_bytes(job);
}

static void pv_events(char *into, size_t bytes, const struct job *job) {
    for (char *end = into + bytes; into < end; into += job->size)
        fill_payload(into = pv_header(into, PV_EVENT, job->size), job->size);
}

static void pv_expect(int fd, char *reply, int type, int or_type) {
    receive_bytes(fd, reply, PV_HEADER_BYTES);
    int found = (int)get_big_endian(reply, 4);
    size_t bytes = get_big_endian(reply + 4, 4);
    if ((found != type && found != or_type) || bytes > LINE_BYTES_MAX) fail("message %d of %zu bytes came", found, bytes);
    receive_bytes(fd, reply, bytes);
}

static void pv_open(struct connection *c, const struct job *job) {
    char text[LINE_BYTES_MAX], reply[LINE_BYTES_MAX];
    if (strlen(job->topic) > PV_NAME_BYTES_MAX) fail("the name is too long");
    if (job->mode == READ) return;
    size_t named = 2 + strlen(job->topic);
    if (c->index == 0) {
        char *end = pv_name(pv_header(text, PV_CREATE_SEGMENT, named), job->topic);
        send_text(c->fd, text, (size_t)(end - text));
        pv_expect(c->fd, reply, PV_SEGMENT_CREATED, PV_SEGMENT_EXISTS);
    }
    char *writer = pv_header(text, PV_SETUP_APPEND, PV_WRITER_BYTES + named);
    pv_writer(writer, c);
    memcpy(c->cursor, writer, PV_WRITER_BYTES);
    char *end = pv_name(writer + PV_WRITER_BYTES, job->topic);
    send_text(c->fd, text, (size_t)(end - text));
    pv_expect(c->fd, reply, PV_APPEND_SETUP, PV_APPEND_SETUP);
}

static void pv_prepare_read(struct connection *c, const struct job *job) {
    free(c->request);
    c->request = allocate(LINE_BYTES_MAX);
    char *end = pv_name(pv_header(c->request, PV_READ_SEGMENT, 2 + strlen(job->topic) + 12), job->topic);
    put_big_endian(end, c->offset, 8);
    put_big_endian(end + 8, PV_READ_BYTES, 4);
    c->request_bytes = (size_t)(end + 12 - c->request);
    c->requests_max = 0;
    c->window = 1; /* where the next one begins, only the answer tells */
    c->reply_bytes = pv_event_bytes(job);
}

static void pv_prepare(struct connection *c, const struct job *job) {
    char *event = allocate(pv_event_bytes(job));
    pv_events(event, pv_event_bytes(job), job);
    c->pattern = repeated(event, pv_event_bytes(job));
    free(event);
    if (job->mode == READ) {
        pv_prepare_read(c, job);
        return;
    }
    size_t block = pv_block_bytes(job), messages = block / pv_event_bytes(job);
    c->request_bytes = PV_BLOCK_BYTES + block + PV_BLOCK_BYTES;
    c->request = allocate(c->request_bytes);
    char *end = c->request + PV_BLOCK_BYTES + block;
    memcpy(pv_header(c->request, PV_BEGIN_BLOCK, PV_BLOCK_BYTES - PV_HEADER_BYTES), c->cursor, PV_WRITER_BYTES);
    memcpy(pv_header(end, PV_END_BLOCK, PV_BLOCK_BYTES - PV_HEADER_BYTES), c->cursor, PV_WRITER_BYTES);
    put_big_endian(c->request + PV_BLOCK_BYTES - 4, block, 4);
    put_big_endian(end + PV_BLOCK_BYTES - 4, block, 4);
    pv_events(c->request + PV_BLOCK_BYTES, block, job);
    c->requests_max = (c->share + (long)messages - 1) / (long)messages;
    c->block_bytes = block;
}

/* Each block says what its writer had written before and behind it. */
static void pv_number(const struct connection *c, char *request, long number) {
    size_t block = c->block_bytes;
    if (!block) return; /* a reader */
    put_big_endian(request + PV_OFFSET_AT, (size_t)number * block, 8);
    put_big_endian(request + PV_BLOCK_BYTES + block + PV_OFFSET_AT, (size_t)(number + 1) * block, 8);
}

/* The level of the last answer counts: it says how far all that came before is on disk. */
static void pv_receive_levels(struct connection *c, const struct job *job, const char *data, size_t bytes) {
    while (bytes) {
        size_t part = collect(c, data, bytes, PV_APPENDED_BYTES);
        data += part, bytes -= part;
        if (c->line_bytes < PV_APPENDED_BYTES) return;
        c->line_bytes = 0;
        int type = (int)get_big_endian(c->line, 4);
        if (type != PV_DATA_APPENDED) fail("after %ld messages came message %d", c->messages, type);
        if (memcmp(c->line + PV_HEADER_BYTES, c->cursor, PV_WRITER_BYTES)) fail("a level of another writer");
        size_t level = get_big_endian(c->line + PV_OFFSET_AT, 8);
        c->answered = (long)(level / c->block_bytes);
        c->messages = (long)(level / pv_event_bytes(job));
    }
}

static void pv_receive_read(struct connection *c, const struct job *job, const char *data, size_t bytes) {
    size_t head = PV_HEADER_BYTES + 2 + strlen(job->topic) + PV_READ_REST_BYTES;
    while (bytes) {
        if (c->line_bytes < head) {
            size_t part = collect(c, data, bytes, head);
            data += part, bytes -= part;
            if (c->line_bytes < head) return;
            int type = (int)get_big_endian(c->line, 4);
            c->frame_left = get_big_endian(c->line + 4, 4) + PV_HEADER_BYTES - head;
            if (type != PV_SEGMENT_READ) fail("after %ld messages came message %d", c->messages, type);
            if (!c->frame_left) fail("the segment ended after %ld messages", c->messages);
        }
        size_t part = bytes < c->frame_left ? bytes : c->frame_left;
        receive_repeated(c, data, part, frame_differs);
        c->answered = 0; /* it counts messages, and the one request is answered when the frame is whole */
        data += part, bytes -= part;
        c->frame_left -= part;
        c->offset += part;
        if (c->frame_left) return;
        c->line_bytes = 0;
        pv_prepare_read(c, job);
        refill(c);
    }
}

static void pv_receive(struct connection *c, const struct job *job, const char *data, size_t bytes) {
    if (job->mode == READ) pv_receive_read(c, job, data, bytes);
    else pv_receive_levels(c, job, data, bytes);
}

const struct wire faststream = {"faststream", fs_open, fs_prepare, fs_receive, NULL};
const struct wire pravega = {"pravega", pv_open, pv_prepare, pv_receive, pv_number};
