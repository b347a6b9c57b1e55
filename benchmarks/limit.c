/* limit: the least a durable log can do for the same bytes.
 *
 *     limit PORT DIRECTORY FILE_BYTES READ_BYTES
 *
 * It takes SESP lines from any number of connections, writes the bytes as they came to a preallocated file, calls
 * fdatasync, and only then answers each line with "+\n". There is no parsing, no index, no checksum and no topic: "#x"
 * and "@x" are lines like all others. What streamd reaches of this figure is what its own work costs.
 *
 * Two threads. The receiver (epoll) fills one batch while the writer writes and syncs the other, so that receiving
 * overlaps with the disk, and all that arrived during one sync shares the next one (group commit). Small batches are
 * written by the receiver itself: to wake a thread for a few hundred bytes would only cost time.
 *
 * A file is rolled at FILE_BYTES. Where READ_BYTES is not 0, a connection whose line starts with "<" is a reader from
 * then on: each of its lines is answered from memory with "+", a fixed message of that many bytes and "\n".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BATCH_BYTES_MAX = 4 << 20,   /* what one write and one fdatasync carry at most */
    INLINE_BYTES_MAX = 64 << 10, /* a batch as small as this gains nothing from a second thread but its wake-up */
    RECEIVE_BYTES_MAX = 1 << 20,
    REPLY_BYTES = 1 << 20,
    ENTRIES_MAX = 16384,
    EVENTS_MAX = 1024,
    SEND_WAIT_MS = 10000,
};

struct connection {
    int fd;
    int reader;            /* it sent "<": its lines are answered from memory */
    int mid_line;          /* the last byte that came was not a newline */
    int wants_out;         /* EPOLLOUT is armed */
    size_t owed;           /* bytes of read replies not yet sent */
    size_t phase;          /* where in the read reply the next byte stands */
};

/* What to answer when the batch is on disk. Zero lines means: the peer has gone, close it. */
struct entry {
    struct connection *connection;
    size_t lines;
};

struct batch {
    char *bytes;
    size_t length;
    size_t entries_count;
    struct entry entries[ENTRIES_MAX];
};

static struct batch batches[2];
static struct batch *filling = &batches[0];
static struct batch *writing = &batches[1];
static int offered;          /* the filling batch may be taken: the receiver is not touching it */
static int handed;           /* the receiver has swapped the batches for an idle writer */
static int writer_idle;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int poller;
static const char *directory;
static size_t file_bytes;
static char acks[REPLY_BYTES];
static char *messages;        /* read replies end to end, one more than fits REPLY_BYTES, to start at any phase */
static size_t message_bytes;  /* one read reply, 0 where reads are off */

static void fail(const char *what) {
    fprintf(stderr, "limit: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* Count newlines 16 bytes at a time. Plain -O2 does not vectorise the loop; memchr is slow on short lines. */
static size_t count_lines(const char *data, size_t length) {
    typedef unsigned char lanes __attribute__((vector_size(16)));
    size_t lines = 0, at = 0;
    const lanes newline = (lanes){0} + '\n';
    while (length - at >= 16) {
        /* A lane counts to 255 before it would wrap. */
        size_t rounds = (length - at) / 16;
        if (rounds > 255) rounds = 255;
        lanes seen = {0};
        for (size_t i = 0; i < rounds; i++, at += 16) {
            lanes here;
            memcpy(&here, data + at, 16);
            seen -= (lanes)(here == newline);
        }
        for (int i = 0; i < 16; i++) lines += seen[i];
    }
    for (; at < length; at++) lines += data[at] == '\n';
    return lines;
}

/* The next file, all its bytes reserved. The name is synced too: bytes under a lost name are lost. */
static int open_file(int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%06d.log", directory, number);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) fail(path);
    if (fallocate(fd, 0, 0, (off_t)file_bytes) < 0) fail("fallocate");
    if (fsync(fd) < 0) fail("fsync");
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || fsync(folder) < 0) fail(directory);
    close(folder);
    return fd;
}

static void send_acks(int fd, size_t lines) {
    size_t left = lines * 2, sent = 0;
    while (sent < left) {
        size_t chunk = left - sent < REPLY_BYTES ? left - sent : REPLY_BYTES;
        /* An odd count may have gone out before; the replies go on with the second byte of "+\n" then. */
        if (sent % 2 && chunk == REPLY_BYTES) chunk--;
        ssize_t n = send(fd, acks + sent % 2, chunk, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            sent += (size_t)n;
        } else if (errno == EAGAIN) {
            struct pollfd one = {.fd = fd, .events = POLLOUT};
            if (poll(&one, 1, SEND_WAIT_MS) <= 0) return; /* a peer that takes no replies: leave it */
        } else if (errno != EINTR) {
            return; /* the peer has gone; the receiver will see it too */
        }
    }
}

static void swap_batches(void) {
    struct batch *batch = filling;
    filling = writing;
    writing = batch;
}

/* Write, sync, answer. Called by one thread at a time: the writer, or the receiver while the writer is idle. */
static void commit(struct batch *batch) {
    static int number, fd = -1;
    static size_t position;
    if (fd < 0 || position + batch->length > file_bytes) {
        if (fd >= 0) close(fd); /* nothing is owed to it: every batch in it was synced */
        fd = open_file(++number);
        position = 0;
    }
    for (size_t done = 0; done < batch->length;) {
        ssize_t n = pwrite(fd, batch->bytes + done, batch->length - done, (off_t)(position + done));
        if (n < 0) fail("pwrite");
        done += (size_t)n;
    }
    if (batch->length && fdatasync(fd) < 0) fail("fdatasync");
    position += batch->length;
    for (size_t i = 0; i < batch->entries_count; i++) {
        struct entry *entry = &batch->entries[i];
        if (entry->lines) {
            send_acks(entry->connection->fd, entry->lines);
        } else {
            close(entry->connection->fd);
            free(entry->connection);
        }
    }
    batch->length = batch->entries_count = 0;
}

static void *writer(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        writer_idle = 1;
        while (!handed && !offered) pthread_cond_wait(&changed, &lock);
        writer_idle = 0;
        if (handed) {
            handed = 0; /* what is offered meanwhile stays offered */
        } else {
            swap_batches();
            offered = 0;
        }
        struct batch *batch = writing;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        commit(batch);
    }
    return NULL;
}

static int batch_full(void) {
    return BATCH_BYTES_MAX - filling->length < RECEIVE_BYTES_MAX || ENTRIES_MAX - filling->entries_count < 2;
}

/* Take the filling batch back from a busy writer, or wait until it has room. */
static void take_batch(void) {
    pthread_mutex_lock(&lock);
    while (offered && batch_full()) pthread_cond_wait(&changed, &lock);
    offered = 0;
    pthread_mutex_unlock(&lock);
}

static void offer_batch(void) {
    if (!filling->entries_count && !filling->length) return;
    pthread_mutex_lock(&lock);
    int idle = writer_idle && !handed;
    if (idle && filling->length <= INLINE_BYTES_MAX) {
        pthread_mutex_unlock(&lock);
        commit(filling);
        return;
    }
    if (idle) {
        /* Swap here: were it left to the writer, the receiver would take the batch back before the writer woke. */
        swap_batches();
        handed = 1;
    } else {
        offered = 1;
    }
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void watch(struct connection *connection, int operation, int wants_out) {
    struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = connection};
    if (epoll_ctl(poller, operation, connection->fd, &event) < 0) fail("epoll_ctl");
    connection->wants_out = wants_out;
}

static void send_messages(struct connection *connection) {
    int blocked = 0;
    while (connection->owed && !blocked) {
        size_t chunk = connection->owed < REPLY_BYTES ? connection->owed : REPLY_BYTES;
        ssize_t n = send(connection->fd, messages + connection->phase, chunk, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            connection->owed -= (size_t)n;
            connection->phase = (connection->phase + (size_t)n) % message_bytes;
        } else if (errno == EAGAIN) {
            blocked = 1;
        } else if (errno != EINTR) {
            connection->owed = 0;
        }
    }
    if (blocked != connection->wants_out) watch(connection, EPOLL_CTL_MOD, blocked);
}

static void receive(struct connection *connection) {
    char *into = filling->bytes + filling->length;
    ssize_t n = recv(connection->fd, into, RECEIVE_BYTES_MAX, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        /* The writer closes it, after the replies that are still to come: until then the number is not reused. */
        epoll_ctl(poller, EPOLL_CTL_DEL, connection->fd, NULL);
        filling->entries[filling->entries_count++] = (struct entry){connection, 0};
        return;
    }
    size_t lines = count_lines(into, (size_t)n);
    if (message_bytes && !connection->mid_line && into[0] == '<') connection->reader = 1;
    connection->mid_line = into[n - 1] != '\n';
    if (connection->reader) {
        connection->owed += lines * message_bytes;
        send_messages(connection);
        return;
    }
    filling->length += (size_t)n;
    if (lines) filling->entries[filling->entries_count++] = (struct entry){connection, lines};
}

static void accept_all(int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct connection *connection = calloc(1, sizeof *connection);
        if (!connection) fail("calloc");
        connection->fd = fd;
        watch(connection, EPOLL_CTL_ADD, 0);
    }
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 1024) < 0) fail("listen");
    return fd;
}

static void prepare(size_t read_bytes) {
    for (size_t i = 0; i < REPLY_BYTES; i++) acks[i] = "+\n"[i % 2];
    for (int i = 0; i < 2; i++) {
        batches[i].bytes = malloc(BATCH_BYTES_MAX);
        if (!batches[i].bytes) fail("malloc");
        memset(batches[i].bytes, 0, BATCH_BYTES_MAX); /* no page faults while it is measured */
    }
    if (!read_bytes) return;
    message_bytes = read_bytes + 2;
    messages = malloc(REPLY_BYTES + message_bytes);
    if (!messages) fail("malloc");
    for (size_t i = 0; i < REPLY_BYTES + message_bytes; i++) {
        size_t at = i % message_bytes;
        /* The same letters that load.c publishes and expects back. */
        messages[i] = at == 0 ? '+' : at == message_bytes - 1 ? '\n' : (char)('a' + (at - 1) % 26);
    }
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: limit PORT DIRECTORY FILE_BYTES READ_BYTES\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    directory = argv[2];
    file_bytes = (size_t)atol(argv[3]);
    prepare((size_t)atol(argv[4]));
    int listener = listen_on(atoi(argv[1]));
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) < 0) fail("epoll");
    pthread_t thread;
    if (pthread_create(&thread, NULL, writer, NULL)) fail("pthread_create");
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        int count = epoll_wait(poller, events, EVENTS_MAX, -1);
        take_batch();
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!connection) {
                accept_all(listener);
                continue;
            }
            if (events[i].events & EPOLLOUT) send_messages(connection);
            if (!(events[i].events & ~EPOLLOUT)) continue;
            if (batch_full()) {
                offer_batch();
                take_batch();
            }
            receive(connection);
        }
        offer_batch();
    }
}
