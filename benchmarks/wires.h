/* What the load generator's engine (load.c) and its wire protocols (wires.c) know of each other.
 *
 * A wire protocol is one `struct wire`: how to greet, what to send, and how to count what comes back. A new protocol
 * is one more of them in wires.c; the engine does not change.
 */
#ifndef WIRES_H
#define WIRES_H

#include <stddef.h>

enum mode { PUBLISH, PING, CONFIRM, FETCH, EVERYBODY, READ, TAKE, TOPICS, FILL };

/* What was asked for on the command line. */
struct job {
    enum mode mode;
    int port;
    int connections;
    size_t size;         /* bytes of a message's payload */
    long messages;       /* in total, over all connections; 0: as many as the time allows */
    double seconds;      /* 0: until all messages are through */
    size_t window_bytes; /* what may be unanswered on one connection */
    double timeout_seconds;
    const char *topic;
};

enum { LINE_BYTES_MAX = 512 };

struct connection {
    int fd;
    int index;
    /* Out: the same request over and over, so only one position is kept. */
    char *request;         /* `request_bytes` long; repeated by the engine into `buffer` */
    size_t request_bytes;
    size_t reply_bytes;    /* of one answer, for the window; 0 where it is small */
    long requests_max;     /* as many as messages, where the wire does not change it; 0: no limit */
    long window;           /* requests that may be unanswered */
    char *buffer;          /* whole requests, end to end */
    size_t buffer_bytes;
    size_t sent_bytes;
    int wants_out;
    char *closing;         /* sent behind the last request, where only its answer tells that all of them are done */
    size_t closing_bytes;
    /* In */
    long answered;         /* requests */
    long messages;         /* messages published or read */
    long share;            /* messages this connection has to bring; 0: no end but time */
    long long sent_at_ns;
    /* State of the wire's own parser. */
    char *pattern;         /* SESP, SMQ, FastStreamDB, Pravega: what has to come */
    size_t received_bytes;
    char line[LINE_BYTES_MAX];
    size_t line_bytes;
    long line_number;      /* Redis: in the reply */
    long expected_lines;
    char cursor[64];       /* the id of the last message read */
    int sid;               /* NATS: of the payload that comes next */
    int pong_owed;
    size_t block_bytes;    /* Pravega: of the events in a request */
    size_t frame_left;     /* of the data that is being read */
    size_t offset;         /* and where in the segment that goes on */
};

struct wire {
    const char *name;
    /* Greet, blocking, before the clock runs. */
    void (*open)(struct connection *, const struct job *);
    /* Set `request`, `request_bytes` and what else differs by mode. */
    void (*prepare)(struct connection *, const struct job *);
    /* Count what came into `answered` and `messages`; an error in a reply ends the program with its text. */
    void (*receive)(struct connection *, const struct job *, const char *data, size_t bytes);
    /* Make this copy of the request the one with this number, from 0; NULL where all are the same. */
    void (*number)(const struct connection *, char *request, long number);
};

extern const struct wire *const wires[];
extern const struct wire faststream, pravega; /* frames.c */

/* Given by wires.c: what more than one of them needs. */
void fill_payload(char *into, size_t bytes);
void put_big_endian(char *into, size_t value, int bytes);
void send_text(int fd, const char *text, size_t bytes);
void receive_bytes(int fd, char *into, size_t bytes); /* blocking, for the greeting only */
char *repeated(const char *reply, size_t bytes);
void receive_repeated(struct connection *, const char *data, size_t bytes,
                      void (*differs)(struct connection *, const char *expected, const char *data, size_t bytes));
void frame_differs(struct connection *, const char *expected, const char *data, size_t bytes);

/* Given by load.c. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *allocate(size_t bytes);
void refill(struct connection *); /* after `request` changed with nothing unanswered: start over with it */

/* SESP: publish one message to the topic NAME<number>, on a connection of its own, in two steps. */
void sesp_fill(int fd, const struct job *, long number);
void sesp_filled(int fd);

#endif
