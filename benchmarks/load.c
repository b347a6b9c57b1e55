/* load: drives a streaming server over loopback and prints one line of JSON.
 *
 *     load WIRE MODE --port P [--connections N] [--size BYTES] [--messages N] [--seconds S] [--window BYTES]
 *                    [--topic NAME] [--timeout S]
 *
 *     WIRE       sesp, smq, faststream, pravega, redis, nats (see wires.c and frames.c)
 *     publish    pipelined: up to --window bytes unanswered on each connection
 *     ping       publish one message at a time on each connection; also gives the latency (p50, p99, max). FastStreamDB
 *                answers no message, so there it is its ping, which the disk has no part in
 *     confirm    FastStreamDB: a message with a ping behind it, one pair at a time; the pong comes when it is on disk
 *     fetch      read one message at a time on each connection, from the start: SESP, Redis; SMQ, where it is removed
 *     everybody  FastStreamDB: messages that go to all streams
 *     read       read --messages messages from the start, pipelined as the protocol allows
 *     take       FastStreamDB: the same, and remove them
 *     topics     create the topics NAME0, NAME1 ... (--messages of them; FastStreamDB: streams 0, 1 ...)
 *     fill       publish one message to each of these, which takes a connection for each: --connections at a time
 *
 * One thread, one epoll loop, requests built beforehand and sent in large pieces. `cpu_seconds` beside `seconds` in the
 * result shows whether the load generator itself was the bottleneck. An error in a reply ends it with exit code 1 and
 * the error's text on stderr.
 */
#define _GNU_SOURCE
#include "wires.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, EVENTS_MAX = 1024, CONNECTIONS_MAX = 20000, LATENCIES_MAX = 1 << 26 };

static struct job job = {.connections = 1, .size = 100, .window_bytes = 4 << 20, .timeout_seconds = 120, .topic = "bench"};
static const struct wire *wire;
static struct connection *connections;
static int poller;
static int stopping; /* the time is over: nothing new is sent, what is unanswered is waited for */
static uint32_t *latencies_ns;
static size_t latencies_count, latencies_room;

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "load: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) fail("out of memory");
    return memory;
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int one_at_a_time(void) { return job.mode == PING || job.mode == CONFIRM || job.mode == FETCH; }

static void note_latency(long long ns) {
    if (latencies_count == latencies_room) {
        if (latencies_room == LATENCIES_MAX) return;
        latencies_room = latencies_room ? latencies_room * 2 : 1 << 16;
        latencies_ns = realloc(latencies_ns, latencies_room * sizeof *latencies_ns);
        if (!latencies_ns) fail("out of memory");
    }
    latencies_ns[latencies_count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

/* ---- One connection ---- */

static void dial(struct connection *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)job.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int yes = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) fail("socket: %s", strerror(errno));
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void refill(struct connection *c) {
    /* Only as many requests as may be under way: a thousand connections need no mebibyte each. */
    size_t count = (size_t)c->window;
    if (count > BUFFER_BYTES / c->request_bytes) count = BUFFER_BYTES / c->request_bytes;
    if (!count) count = 1;
    free(c->buffer);
    c->buffer_bytes = count * c->request_bytes;
    c->buffer = allocate(c->buffer_bytes);
    for (size_t i = 0; i < count; i++) memcpy(c->buffer + i * c->request_bytes, c->request, c->request_bytes);
    c->sent_bytes = 0;
    c->answered = 0;
}

static void open_connection(struct connection *c, int index) {
    c->index = index;
    c->share = job.messages / job.connections + (index < job.messages % job.connections);
    c->requests_max = c->share;
    dial(c);
    wire->open(c, &job);
    wire->prepare(c, &job);
    if (one_at_a_time()) c->window = 1;
    if (!c->window) {
        size_t each = c->request_bytes > c->reply_bytes ? c->request_bytes : c->reply_bytes;
        c->window = (long)(job.window_bytes / each);
        if (!c->window) c->window = 1;
    }
    refill(c);
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0) fail("fcntl: %s", strerror(errno));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) < 0) fail("epoll_ctl: %s", strerror(errno));
}

static void watch_out(struct connection *c, int wants_out) {
    if (c->wants_out == wants_out) return;
    struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event) < 0) fail("epoll_ctl: %s", strerror(errno));
    c->wants_out = wants_out;
}

/* Up to which byte of the endless row of requests may be sent now. */
static size_t send_until(const struct connection *c) {
    long begun = (long)((c->sent_bytes + c->request_bytes - 1) / c->request_bytes);
    if (stopping) return (size_t)begun * c->request_bytes;
    long until = c->answered + c->window;
    if (!c->requests_max || until < c->requests_max) return (size_t)until * c->request_bytes;
    return (size_t)c->requests_max * c->request_bytes + c->closing_bytes;
}

/* What comes next of the row, and how much of it stands together. */
static const char *next_bytes(const struct connection *c, size_t *part) {
    size_t all = (size_t)c->requests_max * c->request_bytes;
    if (c->closing && c->sent_bytes >= all) {
        *part = all + c->closing_bytes - c->sent_bytes;
        return c->closing + (c->sent_bytes - all);
    }
    size_t at = c->sent_bytes % c->buffer_bytes;
    if (at == 0 && wire->number) {
        long first = (long)(c->sent_bytes / c->request_bytes);
        for (size_t i = 0; i < c->buffer_bytes / c->request_bytes; i++)
            wire->number(c, c->buffer + i * c->request_bytes, first + (long)i);
    }
    *part = c->buffer_bytes - at;
    if (c->closing && *part > all - c->sent_bytes) *part = all - c->sent_bytes;
    return c->buffer + at;
}

static void push(struct connection *c) {
    size_t until = send_until(c);
    /* Refill the window by quarters: a small send for each small run of replies would be the load's own slowness. */
    size_t quarter = (size_t)c->window * c->request_bytes / 4;
    int last = until == (size_t)c->requests_max * c->request_bytes + c->closing_bytes;
    if (!c->wants_out && !last && c->sent_bytes + quarter > until) return;
    while (c->sent_bytes < until) {
        size_t part;
        const char *bytes = next_bytes(c, &part);
        if (part > until - c->sent_bytes) part = until - c->sent_bytes;
        if (one_at_a_time() && bytes == c->buffer) c->sent_at_ns = now_ns();
        ssize_t n = send(c->fd, bytes, part, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch_out(c, 1);
            return;
        }
        if (n < 0 && errno != EINTR) fail("send: %s", strerror(errno));
        if (n > 0) c->sent_bytes += (size_t)n;
    }
    watch_out(c, 0);
}

static void pull(struct connection *c) {
    static char data[BUFFER_BYTES];
    ssize_t n = recv(c->fd, data, sizeof data, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) fail("recv: %s", strerror(errno));
    if (n == 0) fail("the server closed the connection after %ld messages", c->messages);
    long before = c->messages;
    wire->receive(c, &job, data, (size_t)n);
    if (one_at_a_time() && c->messages > before) note_latency(now_ns() - c->sent_at_ns);
}

static int finished(const struct connection *c) {
    if (c->share && c->messages >= c->share) return 1;
    return stopping && c->answered * (long)c->request_bytes >= (long)c->sent_bytes;
}

/* ---- All of them ---- */

/* Returns when every connection is done; the time of that. */
static long long run(long long start_ns) {
    long long deadline_ns = start_ns + (long long)(job.timeout_seconds * 1e9);
    long long stop_ns = job.seconds > 0 ? start_ns + (long long)(job.seconds * 1e9) : INT64_MAX;
    int open_count = job.connections;
    char *done = allocate((size_t)job.connections);
    struct epoll_event events[EVENTS_MAX];
    for (int i = 0; i < job.connections; i++) push(&connections[i]);
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS_MAX, 100);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & ~(unsigned)EPOLLOUT) pull(c);
            if (!done[c->index] && finished(c)) {
                done[c->index] = 1;
                open_count--;
            } else {
                push(c);
            }
        }
        long long now = now_ns();
        if (!open_count) return now;
        if (now > deadline_ns) {
            long messages = 0;
            for (int i = 0; i < job.connections; i++) messages += connections[i].messages;
            fail("not done after %.0f s, %ld messages came through", job.timeout_seconds, messages);
        }
        if (!stopping && now > stop_ns) {
            stopping = 1;
            for (int i = 0; i < job.connections; i++)
                if (!done[i] && finished(&connections[i])) done[i] = 1, open_count--;
            if (!open_count) return now;
        }
    }
}

/* One message for each topic. SESP selects a topic once for a connection, so each has one of its own. */
static long long fill(void) {
    struct linger reset = {.l_onoff = 1, .l_linger = 0}; /* no TIME_WAIT: a million of them would take all ports */
    for (long first = 0; first < job.messages; first += job.connections) {
        long count = job.messages - first < job.connections ? job.messages - first : job.connections;
        for (long i = 0; i < count; i++) {
            dial(&connections[i]);
            sesp_fill(connections[i].fd, &job, first + i);
        }
        for (long i = 0; i < count; i++) {
            sesp_filled(connections[i].fd);
            connections[i].messages++;
            setsockopt(connections[i].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(connections[i].fd);
        }
    }
    return now_ns();
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void print_result(long long elapsed_ns, double cpu) {
    double seconds = (double)elapsed_ns / 1e9;
    long messages = 0;
    for (int i = 0; i < job.connections; i++) messages += connections[i].messages;
    printf("{\"messages\": %ld, \"seconds\": %.6f, \"rate\": %.1f, \"cpu_seconds\": %.3f", messages, seconds,
           (double)messages / seconds, cpu);
    if (latencies_count) {
        qsort(latencies_ns, latencies_count, sizeof *latencies_ns, compare);
        printf(", \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f", latencies_ns[latencies_count / 2] / 1e3,
               latencies_ns[(size_t)((double)latencies_count * 0.99)] / 1e3, latencies_ns[latencies_count - 1] / 1e3);
    }
    printf("}\n");
}

static void parse(int argc, char **argv) {
    static const char *const modes[] = {
        [PUBLISH] = "publish", [PING] = "ping", [CONFIRM] = "confirm", [FETCH] = "fetch", [EVERYBODY] = "everybody",
        [READ] = "read",       [TAKE] = "take", [TOPICS] = "topics",   [FILL] = "fill"};
    enum { MODES = sizeof modes / sizeof *modes };
    static const struct option options[] = {
        {"port", 1, NULL, 'p'},    {"connections", 1, NULL, 'c'}, {"size", 1, NULL, 's'},  {"messages", 1, NULL, 'm'},
        {"seconds", 1, NULL, 't'}, {"window", 1, NULL, 'w'},      {"topic", 1, NULL, 'n'}, {"timeout", 1, NULL, 'x'},
        {NULL, 0, NULL, 0}};
    if (argc < 3) fail("usage: load WIRE MODE --port P ...");
    for (size_t i = 0; wires[i]; i++)
        if (!strcmp(argv[1], wires[i]->name)) wire = wires[i];
    if (!wire) fail("no such wire: %s", argv[1]);
    size_t mode = 0;
    while (mode < MODES && strcmp(argv[2], modes[mode])) mode++;
    if (mode == MODES) fail("no such mode: %s", argv[2]);
    job.mode = (enum mode)mode;
    optind = 3;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
            case 'p': job.port = atoi(optarg); break;
            case 'c': job.connections = atoi(optarg); break;
            case 's': job.size = (size_t)atol(optarg); break;
            case 'm': job.messages = atol(optarg); break;
            case 't': job.seconds = atof(optarg); break;
            case 'w': job.window_bytes = (size_t)atol(optarg); break;
            case 'n': job.topic = optarg; break;
            case 'x': job.timeout_seconds = atof(optarg); break;
            default: exit(2);
        }
    }
    if (job.port < 1 || job.connections < 1 || job.connections > CONNECTIONS_MAX) fail("bad --port or --connections");
    if (job.messages < 1 && job.seconds <= 0) fail("--messages or --seconds is needed");
    if (job.messages < job.connections && job.messages) fail("fewer messages than connections");
    int is_sesp = !strcmp(wire->name, "sesp"), is_faststream = !strcmp(wire->name, "faststream");
    if (job.mode >= EVERYBODY && job.messages < 1) fail("%s: --messages is needed", argv[2]);
    if (job.mode >= EVERYBODY && job.mode < FILL && job.connections > 1) fail("%s: one connection", argv[2]);
    if (job.mode == FILL && !is_sesp) fail("%s is for sesp", argv[2]);
    if (job.mode == TOPICS && !is_sesp && !is_faststream) fail("%s is for sesp and faststream", argv[2]);
    if ((job.mode == EVERYBODY || job.mode == TAKE) && !is_faststream) fail("%s is for faststream", argv[2]);
    int is_pravega = !strcmp(wire->name, "pravega"), is_nats = !strcmp(wire->name, "nats");
    if (job.mode == CONFIRM && !is_faststream) fail("%s is for faststream", argv[2]);
    if (job.mode == FETCH && (is_faststream || is_pravega || is_nats)) fail("%s is for sesp, smq and redis", argv[2]);
    if (!one_at_a_time() && job.messages < 1 && is_faststream) fail("faststream: --messages is needed");
}

int main(int argc, char **argv) {
    parse(argc, argv);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0) fail("epoll_create1: %s", strerror(errno));
    connections = allocate((size_t)job.connections * sizeof *connections);
    for (int i = 0; i < job.connections && job.mode != FILL; i++) open_connection(&connections[i], i);
    double cpu_before = cpu_seconds();
    long long start_ns = now_ns(), elapsed_ns = (job.mode == FILL ? fill() : run(start_ns)) - start_ns;
    print_result(elapsed_ns, cpu_seconds() - cpu_before);
    return 0;
}
