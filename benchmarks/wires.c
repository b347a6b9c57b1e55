/* The wire protocols of the load generator: SESP, Simple Message Queue, Redis Streams (RESP), NATS JetStream, and what
 * they share with FastStreamDB and Pravega (frames.c). */
#define _GNU_SOURCE
#include "wires.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_COUNT "$4\r\n1000" /* as RESP writes it */

enum { REPLY_WAIT_MS = 10000, PATTERN_BYTES = 1 << 20 };

/* ---- What all of them need ---- */

void fill_payload(char *into, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) into[i] = (char)('a' + i % 26);
}

void put_big_endian(char *into, size_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) into[i] = (char)value;
}

void send_text(int fd, const char *text, size_t bytes) {
    while (bytes) {
        ssize_t n = send(fd, text, bytes, MSG_NOSIGNAL);
        if (n <= 0) fail("the server closed the connection");
        text += n;
        bytes -= (size_t)n;
    }
}

void receive_bytes(int fd, char *into, size_t bytes) {
    while (bytes) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        if (poll(&one, 1, REPLY_WAIT_MS) <= 0) fail("no reply within %d ms", REPLY_WAIT_MS);
        ssize_t n = recv(fd, into, bytes, 0);
        if (n <= 0) fail("the server closed the connection");
        into += n;
        bytes -= (size_t)n;
    }
}

/* One line, byte by byte. The line end is cut off. */
static void receive_line(int fd, char *line, size_t room) {
    size_t bytes = 0;
    while (bytes < room - 1) {
        receive_bytes(fd, line + bytes, 1);
        if (line[bytes] == '\n') break;
        bytes++;
    }
    if (bytes && line[bytes - 1] == '\r') bytes--;
    line[bytes] = 0;
}

/* Cut what came into lines, without their ends, over the seams of the reads. Of a long line only the start is kept. */
static void each_line(struct connection *c, const struct job *job, const char *data, size_t bytes,
                      void (*take)(struct connection *, const struct job *, const char *line)) {
    while (bytes) {
        const char *end = memchr(data, '\n', bytes);
        size_t part = end ? (size_t)(end - data) : bytes;
        size_t room = LINE_BYTES_MAX - 1 - c->line_bytes;
        size_t kept = part < room ? part : room;
        memcpy(c->line + c->line_bytes, data, kept);
        c->line_bytes += kept;
        if (!end) return;
        if (c->line_bytes && c->line[c->line_bytes - 1] == '\r') c->line_bytes--;
        c->line[c->line_bytes] = 0;
        c->line_bytes = 0;
        take(c, job, c->line);
        data += part + 1;
        bytes -= part + 1;
    }
}

/* Where every reply is the same and known to the byte, what comes is compared with it, over and over, not parsed.
 * The pattern is shared: all connections of a run expect the same. */
char *repeated(const char *reply, size_t bytes) {
    static char *shared;
    if (!shared) {
        shared = allocate(PATTERN_BYTES + bytes);
        for (size_t i = 0; i < PATTERN_BYTES + bytes; i++) shared[i] = reply[i % bytes];
    }
    return shared;
}

void receive_repeated(struct connection *c, const char *data, size_t bytes,
                      void (*differs)(struct connection *, const char *, const char *, size_t)) {
    while (bytes) {
        size_t part = bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES;
        const char *expected = c->pattern + c->received_bytes % c->reply_bytes;
        if (memcmp(data, expected, part)) differs(c, expected, data, part);
        c->received_bytes += part;
        c->answered = c->messages = (long)(c->received_bytes / c->reply_bytes);
        data += part;
        bytes -= part;
    }
}

void frame_differs(struct connection *c, const char *expected, const char *data, size_t bytes) {
    size_t at = 0;
    while (at < bytes && data[at] == expected[at]) at++;
    size_t place = c->received_bytes + at;
    fail("byte %zu of the reply after %zu replies was %02x, not %02x", place % c->reply_bytes, place / c->reply_bytes,
         (unsigned char)data[at], (unsigned char)expected[at]);
}

static int reads(const struct job *job) { return job->mode == READ || job->mode == FETCH; }

/* ---- SESP ---- */

static void sesp_open(struct connection *c, const struct job *job) {
    char text[256], line[LINE_BYTES_MAX];
    if (job->mode == TOPICS) return;
    if (c->index == 0) {
        send_text(c->fd, text, (size_t)snprintf(text, sizeof text, "#%s\n", job->topic));
        receive_line(c->fd, line, sizeof line);
        if (strcmp(line, "+") && strcmp(line, "-AlreadyExists")) fail("#%s was answered with %s", job->topic, line);
    }
    send_text(c->fd, text, (size_t)snprintf(text, sizeof text, "@%s\n", job->topic));
    receive_line(c->fd, line, sizeof line);
    if (strcmp(line, "+")) fail("@%s was answered with %s", job->topic, line);
}

static void sesp_prepare_topics(struct connection *c, const struct job *job) {
    size_t room = (size_t)job->messages * (strlen(job->topic) + 16);
    c->request = allocate(room);
    for (long i = 0; i < job->messages; i++)
        c->request_bytes += (size_t)snprintf(c->request + c->request_bytes, room - c->request_bytes, "#%s%ld\n",
                                             job->topic, i);
    c->requests_max = 1; /* all of them at once, each answered with a line of its own */
}

static void sesp_prepare(struct connection *c, const struct job *job) {
    if (job->mode == TOPICS) {
        sesp_prepare_topics(c, job);
    } else if (reads(job)) {
        c->request = strdup("<\n");
        c->request_bytes = 2;
    } else {
        c->request_bytes = job->size + 2;
        c->request = allocate(c->request_bytes);
        c->request[0] = '>';
        fill_payload(c->request + 1, job->size);
        c->request[job->size + 1] = '\n';
    }
    c->reply_bytes = reads(job) ? job->size + 2 : 2;
    char *reply = allocate(c->reply_bytes);
    reply[0] = '+';
    fill_payload(reply + 1, c->reply_bytes - 2);
    reply[c->reply_bytes - 1] = '\n';
    c->pattern = repeated(reply, c->reply_bytes);
    free(reply);
}

static void sesp_differs(struct connection *c, const char *expected, const char *data, size_t bytes) {
    char text[LINE_BYTES_MAX];
    size_t at = 0, kept = 0;
    while (at < bytes && data[at] == expected[at]) at++;
    size_t replies = (c->received_bytes + at) / c->reply_bytes;
    while (at < bytes && data[at] != '\n' && kept < sizeof text - 1) text[kept++] = data[at++];
    if (at == bytes) receive_line(c->fd, text + kept, sizeof text - kept); /* the rest of a cut line */
    else text[kept] = 0;
    fail("after %zu replies came: %s", replies, text);
}

static void sesp_receive(struct connection *c, const struct job *job, const char *data, size_t bytes) {
    (void)job;
    receive_repeated(c, data, bytes, sesp_differs);
}

/* ---- Simple Message Queue ---- */

enum { SMQ_HEADER_BYTES = 9, SMQ_MESSAGE_BYTES = 5 };

static void smq_open(struct connection *c, const struct job *job) {
    (void)c, (void)job; /* nothing to say */
}

/* A push of U8 elements is, byte by byte, also the reply that brings them. */
static void smq_prepare(struct connection *c, const struct job *job) {
    size_t frame_bytes = SMQ_HEADER_BYTES + SMQ_MESSAGE_BYTES + job->size;
    char *frame = allocate(frame_bytes);
    put_big_endian(frame + 1, SMQ_MESSAGE_BYTES + job->size, 8);
    put_big_endian(frame + SMQ_HEADER_BYTES + 1, job->size, 4);
    fill_payload(frame + SMQ_HEADER_BYTES + SMQ_MESSAGE_BYTES, job->size);
    char *bare = allocate(SMQ_HEADER_BYTES); /* a pull; with a 0 in front, the reply to a push */
    if (reads(job)) {
        bare[0] = 1;
        c->request = bare;
        c->request_bytes = SMQ_HEADER_BYTES;
        c->reply_bytes = frame_bytes;
        c->pattern = repeated(frame, frame_bytes);
        free(frame);
    } else {
        c->request = frame;
        c->request_bytes = frame_bytes;
        c->reply_bytes = SMQ_HEADER_BYTES;
        c->pattern = repeated(bare, SMQ_HEADER_BYTES);
        free(bare);
    }
}

void sesp_fill(int fd, const struct job *job, long number) {
    char *text = allocate(strlen(job->topic) + job->size + 64);
    size_t bytes = (size_t)sprintf(text, "@%s%ld\n>", job->topic, number);
    fill_payload(text + bytes, job->size);
    text[bytes + job->size] = '\n';
    send_text(fd, text, bytes + job->size + 1);
    free(text);
}

void sesp_filled(int fd) {
    char line[LINE_BYTES_MAX];
    for (int reply = 0; reply < 2; reply++) {
        receive_line(fd, line, sizeof line);
        if (strcmp(line, "+")) fail("a message to a topic was answered with %s", line);
    }
}

static void smq_receive(struct connection *c, const struct job *job, const char *data, size_t bytes) {
    (void)job;
    receive_repeated(c, data, bytes, frame_differs);
}

/* ---- Redis Streams ---- */

static void redis_open(struct connection *c, const struct job *job) {
    (void)c, (void)job; /* nothing to say */
}

static void redis_prepare(struct connection *c, const struct job *job) {
    size_t room = job->size + 256;
    free(c->request);
    c->request = allocate(room);
    if (reads(job)) {
        /* The next READ_COUNT, or one, after the last id, as a client of Redis reads a stream. */
        char start[80];
        snprintf(start, sizeof start, "%s%s", c->cursor[0] ? "(" : "-", c->cursor);
        c->request_bytes = (size_t)snprintf(
            c->request, room, "*6\r\n$6\r\nXRANGE\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n$1\r\n+\r\n$5\r\nCOUNT\r\n%s\r\n",
            strlen(job->topic), job->topic, strlen(start), start, job->mode == READ ? READ_COUNT : "$1\r\n1");
        c->requests_max = 0;
        c->window = 1;
        return;
    }
    size_t head = (size_t)snprintf(c->request, room, "*5\r\n$4\r\nXADD\r\n$%zu\r\n%s\r\n$1\r\n*\r\n$1\r\nf\r\n$%zu\r\n",
                                   strlen(job->topic), job->topic, job->size);
    fill_payload(c->request + head, job->size);
    memcpy(c->request + head + job->size, "\r\n", 2);
    c->request_bytes = head + job->size + 2;
}

/* XADD is answered with two lines: "$15" and the id. */
static void redis_take_added(struct connection *c, const struct job *job, const char *line) {
    (void)job;
    if (c->line_number++ % 2 == 0) {
        if (line[0] != '$') fail("after %ld replies came: %s", c->answered, line);
    } else {
        c->messages = ++c->answered;
    }
}

/* XRANGE is answered with "*N" and eight lines for each message: *2, $15, id, *2, $1, f, $100, payload. */
static void redis_take_read(struct connection *c, const struct job *job, const char *line) {
    if (!c->expected_lines) {
        if (line[0] != '*') fail("after %ld messages came: %s", c->messages, line);
        long count = atol(line + 1);
        if (!count) fail("the stream ended after %ld messages", c->messages);
        c->expected_lines = count * 8;
        c->line_number = 0;
        return;
    }
    if (c->line_number++ % 8 == 2) snprintf(c->cursor, sizeof c->cursor, "%.63s", line);
    if (c->line_number % 8 == 0) c->messages++;
    if (c->line_number == c->expected_lines) {
        c->expected_lines = 0;
        redis_prepare(c, job);
        refill(c);
    }
}

static void redis_receive(struct connection *c, const struct job *job, const char *data, size_t bytes) {
    each_line(c, job, data, bytes, reads(job) ? redis_take_read : redis_take_added);
}

/* ---- NATS JetStream ---- */

enum { SID_REPLY = 1, SID_MESSAGE = 2 };

static void nats_open(struct connection *c, const struct job *job) {
    char text[512], line[8192];
    (void)job;
    receive_line(c->fd, line, sizeof line); /* INFO */
    int bytes = snprintf(text, sizeof text,
                         "CONNECT {\"verbose\":false,\"pedantic\":false,\"name\":\"load\"}\r\n"
                         "SUB _INBOX.load.%d %d\r\nSUB _MESSAGES.load.%d %d\r\nPING\r\n",
                         c->index, SID_REPLY, c->index, SID_MESSAGE);
    send_text(c->fd, text, (size_t)bytes);
    do {
        receive_line(c->fd, line, sizeof line);
        if (line[0] == '-') fail("the greeting was answered with %s", line);
    } while (strcmp(line, "PONG"));
}

static void nats_prepare(struct connection *c, const struct job *job) {
    size_t room = job->size + 512;
    c->request = allocate(room);
    if (job->mode == READ) {
        /* A push consumer without acknowledgements: one request, then the server sends all there is. */
        char body[256];
        int body_bytes = snprintf(body, sizeof body,
                                  "{\"stream_name\":\"%s\",\"config\":{\"deliver_subject\":\"_MESSAGES.load.%d\","
                                  "\"ack_policy\":\"none\",\"deliver_policy\":\"all\",\"replay_policy\":\"instant\"}}",
                                  job->topic, c->index);
        c->request_bytes = (size_t)snprintf(c->request, room, "PUB $JS.API.CONSUMER.CREATE.%s _INBOX.load.%d %d\r\n%s\r\n",
                                            job->topic, c->index, body_bytes, body);
        c->requests_max = 1;
        return;
    }
    size_t head = (size_t)snprintf(c->request, room, "PUB %s _INBOX.load.%d %zu\r\n", job->topic, c->index, job->size);
    fill_payload(c->request + head, job->size);
    memcpy(c->request + head + job->size, "\r\n", 2);
    c->request_bytes = head + job->size + 2;
}

/* "MSG subject sid [reply] bytes", then a line of payload. Payloads here, ours and the server's, hold no newline. */
static void nats_take(struct connection *c, const struct job *job, const char *line) {
    if (c->sid) {
        int sid = c->sid;
        c->sid = 0;
        if (sid == SID_MESSAGE) {
            c->messages++;
        } else if (strstr(line, "\"error\"")) {
            fail("after %ld replies came: %s", c->answered, line);
        } else {
            c->answered++;
            if (job->mode != READ) c->messages = c->answered;
        }
    } else if (!strncmp(line, "MSG ", 4)) {
        const char *sid = strchr(line + 4, ' ');
        c->sid = sid ? atoi(sid) : 0;
        if (c->sid != SID_REPLY && c->sid != SID_MESSAGE) fail("not understood: %s", line);
    } else if (!strcmp(line, "PING")) {
        c->pong_owed = 1;
    } else if (line[0] == '-') {
        fail("after %ld replies came: %s", c->answered, line);
    }
}

static void nats_receive(struct connection *c, const struct job *job, const char *data, size_t bytes) {
    each_line(c, job, data, bytes, nats_take);
    /* Not into the middle of a half-sent request. The server waits minutes for it, so a later time will do as well. */
    if (c->pong_owed && c->sent_bytes % c->request_bytes == 0 && send(c->fd, "PONG\r\n", 6, MSG_NOSIGNAL) == 6)
        c->pong_owed = 0;
}

static const struct wire sesp = {"sesp", sesp_open, sesp_prepare, sesp_receive, NULL};
static const struct wire smq = {"smq", smq_open, smq_prepare, smq_receive, NULL};
static const struct wire redis = {"redis", redis_open, redis_prepare, redis_receive, NULL};
static const struct wire nats = {"nats", nats_open, nats_prepare, nats_receive, NULL};
const struct wire *const wires[] = {&sesp, &smq, &faststream, &pravega, &redis, &nats, NULL};
